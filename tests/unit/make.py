"""Plain data for the unit tests, each with sensible values that a test overrides by name, and waiting without hope."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.mlx.plugins.module_utils import _arguments
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting
from ansible_collections.muster.mlx.plugins.module_utils._process import Identity, Process
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import create, make_private, write_json

RUN = f"unit-{os.getpid()}"
"""A run for tests with real processes: nobody else's on this machine carries its marker."""
INSTANCE = "20261130T204500Z-0a1b2c3d"
OLDER = "20261130T194500Z-11111111"
BOOT = "3f0c7a52-boot"
START = "5000"
MARK = f"main/{INSTANCE}/0"
RING = (("10.0.0.1:32323",), ("10.0.0.2:32324",))
LOGIN = {"HOME": "/home/me", "PATH": os.environ["PATH"]}

IDENTITY = Identity(100, START, BOOT)

_SPECIFICATION = Specification("main", 0, "ring", ("/usr/bin/python3", "train.py"), RING, 2)
_PROCESS = Process(100, 1, 100, os.geteuid(), "S", START, 64 << 20, "python3")


def process(pid: int = 100, **changes: Any) -> Process:
    """A process that leads a group of its own, unless told otherwise."""
    return replace(_PROCESS, pid=pid, **{"pgid": pid, **changes})


def record(**changes: Any) -> Record:
    """The record of rank 0 of two, running as process 100."""
    values: dict[str, Any] = {
        "run": "main",
        "instance": INSTANCE,
        "rank": 0,
        "backend": "ring",
        "argv": ("/usr/bin/python3", "train.py"),
        "cwd": "/work",
        "hosts": RING,
        "environment": {},
        "secrets": {},
        "key": "00" * 16,
        "files": {},
        "boot": BOOT,
        "issued": 1000.0,
        "created": 1000.5,
        "fence": "",
        "size": 2,
        "pid": 100,
        "pgid": 100,
        "start": START,
        "born": 1001.0,
    }
    return Record(**{**values, **changes})


def intended(**changes: Any) -> Record:
    """The record of a rank that was never born."""
    return record(**{"pid": None, "pgid": None, "start": "", "born": None, **changes})


def specification(**changes: Any) -> Specification:
    """Rank 0 of two."""
    return replace(_SPECIFICATION, **changes)


def sighting(one: Record | None = None, members: int = 1, alive: bool = True) -> Sighting:
    """A rank as a look found it; `members` processes belong to it."""
    found = one or record()
    pid = found.pid or 100
    return Sighting(found, None, alive, tuple(process(pid + i, pgid=pid) for i in range(members)), 1010.0, BOOT)


def put(places: Places, one: Record, work: Mapping[str, str] | None = None) -> Path:
    """Put a rank's folder on disk, as a start leaves it, and return it; `work` are files of the working directory."""
    folder = Path(make_private(places, places.rank(one.run, one.instance, one.rank)))
    write_json(str(folder / "record.json"), one.to_json())
    create(places.coordination(one.run, one.instance, one.rank), b"[]\n")
    create(str(folder / "log"))
    if one.pid:
        create(str(folder / BEGAN))
    for name, text in (work or {}).items():
        path = Path(places.work(one.run, one.instance), name)
        make_private(places, str(path.parent))
        path.write_text(text)
    return folder


def eventually[T](look: Callable[[], T], seconds: float = 30.0) -> T:
    """Look until what is seen counts as true, and return it; fail when the seconds are over."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r} after {seconds} s"
        time.sleep(0.002)
    return seen


def gone(pid: int) -> bool:
    """Whether a process can no longer run; a zombie that nobody reaps cannot."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def in_child(work: Callable[[], object], seconds: float = 5.0) -> int:
    """Do something in a forked child that ends in any case, and return its exit code: 0 when the answer was true.

    A child that takes longer is ended by SIGALRM, which shows as -14.
    """
    child = os.fork()
    if child == 0:
        code = 2
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not what pytest-timeout makes of it
            signal.setitimer(signal.ITIMER_REAL, seconds)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tree(root: Path | str) -> dict[str, tuple[int, int, bytes]]:
    """Return all that is below a folder, itself included: mode, time of change, content. For "nothing was written"."""
    found = {}
    for path in [one for one in [Path(root), *Path(root).rglob("*")] if os.path.lexists(one)]:
        info = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (info.st_mode, info.st_mtime_ns, content)
    return found


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at real processes through /proc")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def options(entry: str, **given: Any) -> dict[str, Any]:
    """Return a module's options, checked and completed by its own argument spec."""
    spec = {"rank": _arguments.RANK, "rank_info": _arguments.RANK_INFO, "preflight": _arguments.PREFLIGHT}[entry]
    checked = ArgumentSpecValidator(**spec).validate(given)
    assert checked.error_messages == []
    return dict(checked.validated_parameters)
