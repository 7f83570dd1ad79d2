"""The module rank_info by its main()."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.modules import rank_info

from tests.unit.make import INSTANCE, OLDER, needs_linux, put, record, tree
from tests.unit.plugins.modules.run import Ran

pytestmark = needs_linux


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], places: Places) -> Ran:
    return Ran(rank_info.main, capsys, places.root)


def test_nothing_where_nothing_is(run: Ran, places: Places) -> None:
    result = run()
    assert (result["changed"], result["ranks"], result["damaged"], result["work"]) == (False, [], [], {})
    assert not os.path.exists(places.root)


@pytest.mark.parametrize("check", [False, True])
def test_all_runs_or_one_and_nothing_is_written(run: Ran, places: Places, check: bool) -> None:
    me = LinuxSystem().process(os.getpid())
    assert me is not None
    boot = LinuxSystem().boot()
    alive = record(run="one", pid=me.pid, pgid=me.pid, start=me.start, boot=boot)
    put(places, alive)
    put(places, record(run="two", instance=OLDER, boot=boot), {"checkpoint": "x"})
    (put(places, record(run="two", rank=1)) / "record.json").write_text("{")
    before = tree(places.root)
    result = run(check=check)
    assert {(one["run"], one["rank"], one["state"]) for one in result["ranks"]} == {
        ("one", 0, "running"),
        ("two", 0, "dead"),
    }
    assert [one["path"] for one in result["damaged"]] == [places.rank("two", INSTANCE, 1) + "/record.json"]
    assert result["work"]["two"] == [places.work("two", OLDER)]
    only = run(check=check, run="one")
    assert [(one["run"], one["pid"]) for one in only["ranks"]] == [("one", me.pid)]
    assert only["ranks"][0]["memory"] > 1 << 20
    assert tree(places.root) == before


def test_a_run_that_is_none_is_refused(run: Ran) -> None:
    assert "run's name" in run(run="../x")["msg"]


def test_a_state_directory_that_is_none_is_refused(run: Ran, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run(state_dir=str(tmp_path / "file"))
    assert result["failed"]
    assert "no directory" in result["msg"]
