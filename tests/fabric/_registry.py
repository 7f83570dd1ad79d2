"""Which fabrics exist on this machine: one small file each, and one lock for everything that creates or removes."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

BASE = Path("/run/muster-fabric")
REGISTRY = BASE / ".registry"


@dataclass(frozen=True)
class Entry:
    """A fabric that exists, or did when somebody looked after it last."""

    name: str
    directory: str
    subnet: int
    ssh_dir: str
    made_ssh_dir: bool = False


@contextmanager
def lock() -> Iterator[None]:
    """Hold the registry. Its directory goes with the last fabric, so look again whether the locked one is still it."""
    for _ in range(100):
        REGISTRY.mkdir(parents=True, exist_ok=True, mode=0o755)
        descriptor = os.open(REGISTRY, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.stat(REGISTRY).st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    else:
        raise RuntimeError(f"could not lock {REGISTRY} in 100 attempts: something removes it all the time")
    try:
        yield
    finally:
        for directory in (REGISTRY, BASE):
            with suppress(OSError):  # not empty: others still use it
                directory.rmdir()
        os.close(descriptor)


def entries() -> list[Entry]:
    """All known fabrics, by name."""
    return [Entry(**json.loads(path.read_text())) for path in sorted(REGISTRY.glob("*.json"))]


def find(name: str) -> Entry | None:
    """The fabric of this name."""
    return next((entry for entry in entries() if entry.name == name), None)


def add(name: str, directory: Path) -> Entry:
    """Take a free subnet, and make the mount point for ssh's directory if need be. Call with the lock held."""
    used = {entry.subnet for entry in entries()}
    subnet = next((number for number in range(1, 255) if number not in used), None)
    if subnet is None:
        raise RuntimeError(f"all 254 subnets are taken; take some fabrics down (see {REGISTRY})")
    # ssh goes by the account's home, whatever $HOME says
    ssh_dir = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
    made = not ssh_dir.exists()
    entry = Entry(name, str(directory), subnet, str(ssh_dir), made)
    _write(entry)
    ssh_dir.mkdir(mode=0o700, exist_ok=True)
    return entry


def remove(entry: Entry) -> None:
    """Forget a fabric. Who made ~/.ssh as a mount point removes it, or leaves that to a fabric that still needs it."""
    (REGISTRY / f"{entry.name}.json").unlink(missing_ok=True)
    heir = next((other for other in entries() if other.ssh_dir == entry.ssh_dir), None)
    if entry.made_ssh_dir and heir:
        _write(replace(heir, made_ssh_dir=True))
    elif entry.made_ssh_dir:
        with suppress(OSError):  # not empty: the user has put something there meanwhile, and it is theirs
            os.rmdir(entry.ssh_dir)


def _write(entry: Entry) -> None:
    path = REGISTRY / f"{entry.name}.json"
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(entry)))
    temporary.replace(path)
