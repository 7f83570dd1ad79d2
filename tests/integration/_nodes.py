"""What is on the hosts, seen from outside and without Muster: ranks, supervisors, records, files."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.fabric._accounts import HOMES
from tests.fabric._fabric import Fabric
from tests.fabric._host import Host, Seen

MARKER = "MUSTER_RANK"

# What a teardown leaves on purpose, below the state directory; a folder without anything in it ends in a slash.
STAYS = re.compile(
    r"(fences/[^/]+\.json|locks/[^/]+\.lock|runs/([^/]+/)?"
    r"|runs/[^/]+/[^/]+/(receipt\.json|rank-\d+/(log|exit\.json)|work/.*[^/]))"
)

PLACES = (*HOMES.values(), "/tmp", "/var/tmp")
"""Where a user can write on a host."""


def eventually[T](look: Callable[[], T], what: str, timeout: float = 20) -> T:
    """Look until there is something to see, and return it."""
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.01)
    return found


def ranks(host: Host, run: str = "") -> list[Seen]:
    """Processes of ranks, and whatever descends from them."""
    alive = [process for process in host.processes() if process.state not in "ZX"]
    return [
        one
        for one in alive
        if one.environ.get(MARKER, "").startswith(f"{run}/" if run else "") and MARKER in one.environ
    ]


def supervisors(host: Host) -> list[Seen]:
    """Processes of supervisors, and ranks that are not born yet."""
    return [
        one
        for one in host.processes()
        if any(word.endswith("/supervisor.py") for word in one.argv) and one.state not in "ZX"
    ]


def pids(fabric: Fabric, run: str = "") -> dict[str, list[int]]:
    """Host → pids of its ranks."""
    return {host.name: [one.pid for one in ranks(host, run)] for host in fabric.hosts}


def state_dirs(host: Host) -> list[Path]:
    """The state directories of all users that have one, as the machine can open them."""
    return [path for home in HOMES.values() if (path := inside(host, home) / ".muster").is_dir()]


def inside(host: Host, path: str) -> Path:
    """Where the machine finds a host's file."""
    return host.fs_root / path.lstrip("/")


def read(host: Host, path: str) -> str:
    """A host's text file."""
    return inside(host, path).read_text()


def only(host: Host, pattern: str) -> str:
    """The one file on the host that matches."""
    found = host.files(pattern)
    assert len(found) == 1, f"{host.name}: wanted one {pattern}, found {found}"
    return found[0]


def walk(host: Host, place: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below a place of the host, and what it is, but nothing that is mounted there from the machine."""
    mounted = {line.split()[4] for line in (host.fs_root / "proc/1/mountinfo").read_text().splitlines()}
    folders = [place]
    while folders:
        folder = folders.pop()
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.scandir(inside(host, folder)):
                path = f"{folder}/{entry.name}"
                info = entry.stat(follow_symlinks=False)
                if path not in mounted:
                    yield path, info
                    folders += [path] if stat.S_ISDIR(info.st_mode) else []


def files_below(folder: Path) -> list[str]:
    """Relative paths of everything below a folder but the folders that hold something."""
    found = []
    for parent, folders, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in names]
        found += [] if folders or names else [os.path.relpath(parent, folder) + "/"]
    return found


def unexpected(host: Host) -> list[str]:
    """What a teardown should not have left in a state directory."""
    return [
        f"{host.name}: {folder.name}/{name}"
        for folder in state_dirs(host)
        for name in files_below(folder)
        if not STAYS.fullmatch(name)
    ]


def left(fabric: Fabric) -> list[str]:
    """In words, what is left of any run on any host: processes, records, coordination files."""
    found = []
    for host in fabric.hosts:
        if host.identity is None or not host.identity.alive():
            continue
        found += [f"{host.name}: rank {one.pid} {one.argv}" for one in ranks(host)]
        found += [f"{host.name}: supervisor {one.pid} {one.argv}" for one in supervisors(host)]
        for place in PLACES:
            found += [
                f"{host.name}: {path}" for path, _ in walk(host, place) if fnmatch.fnmatch(path, "*/hosts-*.json")
            ]
            found += [f"{host.name}: {path}" for path, _ in walk(host, place) if path.endswith("/record.json")]
    return found


def sweep(fabric: Fabric) -> None:
    """Make the hosts as new, so that one test that leaves something does not fail the next."""
    for host in fabric.hosts:
        victims = {str(one.pid) for one in [*supervisors(host), *ranks(host)]}
        if victims:
            host.run(["kill", "-KILL", *victims], check=False)
        for home in HOMES.values():
            for name in (".muster", ".ansible"):
                shutil.rmtree(inside(host, home) / name, ignore_errors=True)


def listing(host: Host) -> dict[str, tuple[int, int, int]]:
    """Every path of the users with mode, size and time of change: equal before and after when nothing was written.

    Without ~/.ansible, where Ansible itself makes a folder at the first login.
    """
    return {
        path: (info.st_mode, 0 if stat.S_ISDIR(info.st_mode) else info.st_size, info.st_mtime_ns)
        for place in PLACES
        for path, info in walk(host, place)
        if "/.ansible" not in path
    }


def holders(host: Host, path: str) -> list[int]:
    """Pids, as the host sees them, of the processes that have this file open."""
    found = []
    proc = host.fs_root / "proc"
    for name in filter(str.isdigit, os.listdir(proc)):
        with suppress(OSError):
            if any(os.readlink(fd) == path for fd in (proc / name / "fd").iterdir()):
                found.append(int(name))
    return found
