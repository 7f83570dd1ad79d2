"""The first moments of a process that outlives its parent: born, announced, recorded, and only then let go.

Both sides of the conversation are here, `start` and what belongs to it, and `detach_and_announce`, `ready`, `failed`:

    child: pid <n> [more]   the parent writes the pid down before anything else happens
    parent: go              if it died before, the child reads an end of file and goes away: nothing is ever unrecorded
    child: ready            or: error <text>

Imported by the programs that run isolated (``-I -S``), so it imports nothing of ours.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


class LaunchError(RuntimeError):
    """A process of the fabric did not come up."""


class Launch:
    """A process on its way: `wait_announced`, record it, `go`, `wait_ready`, and `close` in any case."""

    def __init__(self, popen: subprocess.Popen[bytes], what: str, log: Path) -> None:
        self._popen, self._what, self._log = popen, what, log
        self._deadline = time.monotonic() + 15
        self._pending = b""
        self.pid, self.more = 0, [""]

    def wait_announced(self) -> None:
        """Wait until it has told its pid, which comes with whatever else it has to tell."""
        words = self._line("pid").split()
        self.pid, self.more = int(words[0]), words[1:]

    def go(self) -> None:
        """The pid is recorded; the process may begin."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(b"go\n")
        self._popen.stdin.flush()

    def wait_ready(self) -> None:
        """Wait until the process says that it is ready."""
        self._line("ready")
        self.close()

    def close(self) -> None:
        """Let go of the pipes; a process that was not yet told to begin ends."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()
        self._popen.wait(5)

    def _line(self, wanted: str) -> str:
        stdout = self._popen.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left = self._deadline - time.monotonic()
                chunk = os.read(stdout.fileno(), 4096) if left > 0 and selector.select(left) else b""
                if not chunk:
                    raise LaunchError(self._explain(wanted, "nothing" if left > 0 else "nothing in 15 seconds"))
                self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        word, _, rest = line.decode().partition(" ")
        if word != wanted:
            raise LaunchError(self._explain(wanted, f"{word} {rest}"))
        return rest

    def _explain(self, wanted: str, found: str) -> str:
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:]) if self._log.exists() else ""
        return f"{self._what}: wanted '{wanted}', got {found}. Its log, {self._log}, ends with:\n{tail or '(empty)'}"


def start(program: str, config: Path, log: Path, what: str, python: str = "") -> Launch:
    """Start one of this directory's programs with a configuration file; it announces itself."""
    with log.open("ab") as errors:
        popen = subprocess.Popen(
            [
                python or getattr(sys, "_base_executable", sys.executable),
                "-I",
                "-S",
                "-B",
                str(HERE / program),
                str(config),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
    return Launch(popen, what, log)


def detach_and_announce(more: Sequence[object] = ()) -> None:
    """Child's side: fork; one half announces the pid of the other and leaves, the other waits for `go`."""
    pid = os.fork()
    if pid:
        print("pid", pid, *more, flush=True)
        os._exit(0)
    os.setsid()
    if sys.stdin.readline() != "go\n":
        os._exit(0)


def ready() -> None:
    """Child's side: say so, and let go of the pipes (both would hold up whoever waits for their end)."""
    print("ready", flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def failed(error: BaseException) -> None:
    """Child's side: say what went wrong, on one line."""
    print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)
