"""Where a value can be found on this machine: processes, files, texts; as it is and in the usual disguises."""

from __future__ import annotations

import base64
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


def disguises(value: str) -> list[bytes]:
    """The value itself, in hexadecimal, and in base64 at each of its three alignments."""
    raw = value.encode()
    found = [raw, raw.hex().encode()]
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw + b"\0" * 3)
        # Without the characters that hold bits of the neighbours.
        found.append(encoded[(0, 2, 3)[shift] : (len(raw) + shift) * 8 // 6])
    return found


def in_text(text: str | bytes, value: str) -> bool:
    """Whether a text holds the value in any disguise."""
    raw = text.encode() if isinstance(text, str) else text
    return any(disguise in raw for disguise in disguises(value))


def in_files(folder: Path, value: str) -> list[str]:
    """Files below the folder that hold it."""
    found = []
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with suppress(OSError):
                if path.is_file() and in_text(path.read_bytes(), value):
                    found.append(str(path))
    return found


@dataclass
class Watch:
    """Looks at every process of this machine, hosts included, again and again, until it is left.

    `shown` is what was seen with the value on its command line, `held` with the value in its environment.
    """

    value: str
    rounds: int = 0
    shown: set[str] = field(default_factory=set)
    held: set[tuple[str, bool]] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    def _look(self) -> None:
        wanted = disguises(self.value)
        while not self._over.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if any(word in command for word in wanted):
                        self.shown.add(command.replace(b"\0", b" ").decode(errors="replace")[:300])
                    environment = Path(f"/proc/{pid}/environ").read_bytes()
                    if any(word in environment for word in wanted):
                        words = command.replace(b"\0", b" ").decode(errors="replace")[:300]
                        self.held.add((words, b"\0MUSTER_RANK=" in b"\0" + environment))
            self.rounds += 1
