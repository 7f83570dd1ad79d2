"""Starting ranks for real: what is on disk before a supervisor runs, and what a failed birth says."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _supervisor
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._run import MANIFEST, Damaged, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification
from ansible_collections.muster.mlx.plugins.module_utils._start import Launch, prepare, start
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import make_private, read_record, records
from ansible_collections.muster.mlx.plugins.plugin_utils import _archive

from tests.unit.make import INSTANCE, LOGIN, RING, RUN, eventually, gone, needs_linux, specification

NODE = LinuxSystem()
LAUNCH = Launch(INSTANCE, 1000.0, "")
SLEEP = specification(run=RUN, argv=("/bin/sleep", "600"))

pytestmark = needs_linux


@pytest.fixture(autouse=True)
def nothing_left(places: Places) -> Iterator[None]:
    """End what a test started."""
    yield
    for one in records(places, RUN):
        if isinstance(one, Record) and one.pid and not gone(one.pid):
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)


def go(places: Places, *wanted: Specification, launch: Launch = LAUNCH) -> list[Record]:
    return list(start(places, wanted, launch, LOGIN, NODE))


class TestPrepare:
    """Before anything runs."""

    def prepared(self, places: Places, **changes: Any) -> Record:
        work = make_private(places, places.work(RUN, INSTANCE))
        return prepare(places, specification(run=RUN, **changes), LAUNCH, work, NODE)

    def test_folder_coordination_file_log_and_intended_record(self, places: Places) -> None:
        one = self.prepared(places, rank=1, environment={"A": "1"}, secrets={"S": "2"})
        folder = Path(places.rank(RUN, INSTANCE, 1))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
        names = {"log", "record.json", f"hosts-{INSTANCE}-1.json"}
        assert modes == {"rank-1": 0o700} | dict.fromkeys(names, 0o600)
        with open(places.coordination(RUN, INSTANCE, 1), encoding="utf-8") as file:
            assert json.load(file) == [list(row) for row in RING]
        assert (folder / "log").read_bytes() == b""
        assert read_record(places, RUN, INSTANCE, 1) == one
        assert (one.pid, one.boot, one.cwd, one.fence) == (None, NODE.boot(), places.work(RUN, INSTANCE), "")
        assert set(one.environment) | set(one.secrets) == {"A", "S"}

    def test_a_single_rank_has_no_coordination_file(self, places: Places) -> None:
        self.prepared(places, hosts=RING[:1], size=1)
        assert not os.path.exists(places.coordination(RUN, INSTANCE, 0))

    @pytest.mark.parametrize("name", ["log", f"hosts-{INSTANCE}-0.json"])
    def test_what_lies_there_already_is_not_followed_or_overwritten(
        self, places: Places, tmp_path: Path, name: str
    ) -> None:
        folder = Path(make_private(places, places.rank(RUN, INSTANCE, 0)))
        (folder / name).symlink_to(tmp_path / "target")
        with pytest.raises(FileExistsError):
            self.prepared(places)
        assert not (tmp_path / "target").exists()


class TestStart:
    """Ranks that run."""

    def test_every_rank_runs_under_a_supervisor_of_its_own(self, places: Places) -> None:
        first, second = go(places, SLEEP, specification(run=RUN, rank=1, argv=("/bin/sleep", "600")))
        assert [first.rank, second.rank] == [0, 1]
        table = NODE.table()
        for one in (first, second):
            assert one.pid is not None
            assert (table[one.pid].start, table[one.pid].ppid) == (one.start, one.supervisor_pid)
            assert read_record(places, RUN, INSTANCE, one.rank) == one
        assert first.supervisor_pid != second.supervisor_pid

    def test_the_controllers_files_are_in_the_working_directory(self, places: Places, tmp_path: Path) -> None:
        (tmp_path / "hello.sh").write_text("echo hello")
        files = _archive.collect(["hello.sh"], str(tmp_path))
        _archive.write_archive(files, str(tmp_path / "a.tar"))
        manifest = _archive.manifest(files)
        wanted = specification(run=RUN, argv=("/bin/sh", "hello.sh"), files=manifest)
        go(places, wanted, launch=Launch(INSTANCE, 1000.0, "", str(tmp_path / "a.tar")))
        log = Path(places.rank(RUN, INSTANCE, 0), "log")
        assert eventually(log.read_text) == "hello\n"
        with open(f"{places.instance(RUN, INSTANCE)}/{MANIFEST}", encoding="utf-8") as file:
            assert json.load(file) == manifest

    def test_the_supervisor_is_the_one_that_comes_with_muster(self, places: Places) -> None:
        go(places, SLEEP)
        written = Path(places.instance(RUN, INSTANCE), "supervisor.py").read_bytes()
        assert written == Path(_supervisor.__file__).read_bytes()


class TestFailedBirth:
    """Ranks that never ran, each with its reason."""

    @pytest.mark.parametrize(
        ("script", "words"),
        [("echo ImportError: no luck >&2; exit 1", "ImportError: no luck"), ("exit 1", "ended and says nothing")],
    )
    def test_a_supervisor_that_dies_at_once(
        self, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
    ) -> None:
        interpreter = tmp_path / "python"
        interpreter.write_text(f"#!/bin/sh\n{script}\n")
        interpreter.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(interpreter))
        with pytest.raises(MusterError, match=rf"The supervisor of rank 0.*{words}.*supervisor\.log"):
            go(places, SLEEP)

    @pytest.mark.parametrize(
        "changes",
        [
            {"argv": ("/bin/true", "\udcff")},
            {"cwd": "/tmp/\udcff"},
            {"files": {"\udcff.py": "00"}},
            {"argv": ("/bin/true", "\ud800")},
        ],
    )
    def test_words_that_are_no_utf8(self, places: Places, changes: dict[str, Any]) -> None:
        """As Linux allows them in file names, and Ansible brings them over. An error in words, or a good record."""
        try:
            go(places, specification(**{"run": RUN, "argv": ("/bin/sleep", "600"), **changes}))
        except MusterError:
            return
        assert not isinstance(read_record(places, RUN, INSTANCE, 0), Damaged)
