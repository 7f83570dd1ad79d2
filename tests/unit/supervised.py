"""One rank under the real supervisor, with the very job that a start would give it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _start
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import make_private, write_whole

from tests.unit.make import INSTANCE, LOGIN, RUN, eventually, gone, specification


class Pending(subprocess.Popen[bytes]):
    """A supervisor that waits for its job, which is kept here instead of being sent."""

    job: dict[str, Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Start it, and put something else where the job is to be written."""
        super().__init__(*arguments, **options)
        assert self.stdin is not None
        self.pipe, self.stdin = self.stdin, _Keep(self)  # type: ignore[assignment]

    def send(self) -> None:
        """Send the job."""
        with self.pipe:
            self.pipe.write(json.dumps(self.job).encode())


class _Keep:
    def __init__(self, pending: Pending) -> None:
        self.pending = pending

    def __enter__(self) -> _Keep:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def write(self, job: bytes) -> None:
        self.pending.job = json.loads(job)


class Supervised:
    """The supervisor, its rank, and what both leave in the rank's folder."""

    def __init__(self, places: Places, argv: tuple[str, ...], **changes: Any) -> None:
        """Make the folder and the intended record and start the supervisor; its job is sent by `go`."""
        wanted = specification(run=RUN, argv=argv, **changes)
        work = make_private(places, places.work(RUN, INSTANCE))
        program = os.path.join(places.instance(RUN, INSTANCE), "supervisor.py")
        write_whole(program, _start._supervisor_source())
        self.intended = _start.prepare(places, wanted, _start.Launch(INSTANCE, 1000.0, ""), work, LinuxSystem())
        self.folder = Path(places.rank(RUN, INSTANCE, wanted.rank))
        self.work = Path(work)
        self.coordination = Path(places.coordination(RUN, INSTANCE, wanted.rank))
        self.fence = Path(places.fence(RUN))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("subprocess.Popen", Pending)
            process = _start._spawn(places, program, wanted, self.intended, LOGIN)
        assert isinstance(process, Pending)
        self.process = process
        self.job = process.job

    def go(self) -> Supervised:
        """Send the job."""
        self.process.send()
        return self

    def record(self) -> dict[str, Any]:
        """Return the record as soon as it names a process."""
        return eventually(lambda: self._record() if self._record().get("pid") else {})

    def exit(self) -> dict[str, Any]:
        """Return exit.json once the supervisor has ended."""
        assert self.process.wait(30) == 0, self.said()
        data: dict[str, Any] = json.loads((self.folder / "exit.json").read_bytes())
        return data

    def log(self) -> bytes:
        """Return what the rank printed."""
        return (self.folder / "log").read_bytes()

    def said(self) -> str:
        """Return what the supervisor complained about."""
        return (self.folder / "supervisor.log").read_text()

    def _record(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.folder / "record.json").read_bytes().decode("utf-8", "surrogateescape"))
        return data

    def close(self) -> None:
        """End both, whatever state they are in."""
        with suppress(FileNotFoundError, ValueError):
            pid = self._record().get("pid")
            if pid and not gone(pid):
                os.killpg(pid, signal.SIGKILL)
        self.process.kill()
        self.process.pipe.close()
        self.process.wait()


Supervise = Callable[..., Supervised]
