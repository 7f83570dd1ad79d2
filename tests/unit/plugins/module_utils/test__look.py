"""What is there: records and the process table together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._look import (
    Sighting,
    describe_exit,
    kept_work,
    log_path,
    look,
    settle,
    sight,
    snapshot,
    strays,
    tail,
)
from ansible_collections.muster.mlx.plugins.module_utils._run import MANIFEST, Damaged, Exit, Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import write_json

from tests.unit.make import BOOT, INSTANCE, MARK, OLDER, intended, process, put, record
from tests.unit.memory import MemorySystem

DONE = {"code": 0, "signal": None, "time": 5.0, "unborn": ""}


@pytest.mark.parametrize(
    ("one", "ended", "alive", "boot", "state", "finished"),
    [
        pytest.param(record(), None, True, BOOT, "running", False, id="running"),
        pytest.param(record(), Exit(0, None, 1), True, BOOT, "running", False, id="running, whatever a file says"),
        pytest.param(record(), Exit(0, None, 1), False, BOOT, "exited 0", True, id="did what it had to"),
        pytest.param(record(), Exit(7, None, 1), False, BOOT, "exited 7", False, id="failed"),
        pytest.param(record(), Exit(None, 9, 1), False, BOOT, "killed by SIGKILL", False, id="killed"),
        pytest.param(
            record(), Exit(None, 63, 1), False, BOOT, "killed by signal 63", False, id="killed by a nameless one"
        ),
        pytest.param(record(), None, False, BOOT, "dead", False, id="nobody saw how"),
        pytest.param(intended(), None, False, BOOT, "intended", False, id="not born yet"),
        pytest.param(intended(), None, False, "later-boot", "dead", False, id="not born before a reboot"),
        pytest.param(intended(), Exit(125, None, 1, "x"), False, BOOT, "exited 125", False, id="unborn"),
    ],
)
def test_state(one: Any, ended: Exit | None, alive: bool, boot: str, state: str, finished: bool) -> None:
    seen = Sighting(one, ended, alive, (), 1010.0, boot)
    assert (seen.state, seen.finished) == (state, finished)


def test_describe_exit() -> None:
    assert describe_exit(Exit(255, None, 0)) == "exited 255"
    assert describe_exit(Exit(None, 15, 0)) == "killed by SIGTERM"


def test_what_the_roll_call_shows(places: Places) -> None:
    one = record(hosts=(("10.0.0.1:32323", "10.1.0.1:32324"), ("10.0.0.2:32325",)))
    node = MemorySystem(process(rss=1000), process(101, ppid=100, rss=24))
    node.wall = 1011.04
    data = sight(places, one, snapshot(node)).to_json(places)
    assert json.loads(json.dumps(data)) == data
    assert (data["state"], data["age"], data["memory"], data["processes"]) == ("running", 10.0, 1024, [100, 101])
    assert (data["ports"], data["log"]) == ([32323, 32324], log_path(places, one))
    assert data["program"] == ["/usr/bin/python3", "train.py"]


def test_what_the_roll_call_shows_of_a_dead_rank(places: Places) -> None:
    data = sight(places, record(), snapshot(MemorySystem())).to_json(places)
    assert (data["state"], data["pid"], data["age"], data["memory"], data["processes"]) == ("dead", 100, None, None, [])


@pytest.mark.parametrize("days", [-1, 1])
def test_a_wall_clock_set_by_a_day_changes_no_identity(places: Places, days: int) -> None:
    node = MemorySystem(process())
    node.wall = 1001 + days * 86400
    assert sight(places, record(), snapshot(node)).state == "running"


def test_exit_is_only_read_of_what_lives_no_more(places: Places) -> None:
    folder = put(places, record())
    write_json(str(folder / "exit.json"), DONE)
    assert sight(places, record(), snapshot(MemorySystem(process()))).exit is None
    assert sight(places, record(), snapshot(MemorySystem())).exit == Exit(0, None, 5.0)


def test_look_tells_ranks_from_damaged_records(places: Places) -> None:
    put(places, record())
    (put(places, record(rank=1)) / "record.json").write_text("{")
    found, damaged = look(places, "main", snapshot(MemorySystem(process())))
    assert [(one.record.rank, one.alive) for one in found] == [(0, True)]
    assert [type(one) for one in damaged] == [Damaged]


class TestSettle:
    """A look that waits a moment for a supervisor that is still writing."""

    supervised = record(supervisor_pid=90, supervisor_start="4990")

    def test_the_exit_is_awaited(self, places: Places) -> None:
        folder = put(places, self.supervised)
        node = MemorySystem(process(90, start="4990"))
        node.at(0.3, lambda: write_json(str(folder / "exit.json"), DONE))
        found, _damaged = settle(places, "main", node)
        assert [one.state for one in found] == ["exited 0"]
        assert 0.3 <= node.clock < 0.5

    def test_but_not_for_ever(self, places: Places) -> None:
        put(places, self.supervised)
        node = MemorySystem(process(90, start="4990"))
        found, _damaged = settle(places, "main", node)
        assert [one.state for one in found] == ["dead"]
        assert 1 <= node.clock < 1.5

    @pytest.mark.parametrize(
        "there",
        [[process(), process(90, start="4990")], [process(90, start="4991")], []],
        ids=["alive", "reused", "gone"],
    )
    def test_and_not_where_nothing_is_to_come(self, places: Places, there: list) -> None:  # type: ignore[type-arg]
        put(places, self.supervised)
        node = MemorySystem(*there)
        settle(places, "main", node)
        assert node.clock == 0


def test_strays(places: Places) -> None:
    put(places, record())
    (put(places, record(rank=1, pid=200, pgid=200)) / "record.json").write_text("{")
    marks = {
        100: MARK,
        200: f"main/{INSTANCE}/1",
        300: f"main/{OLDER}/0",
        400: f"other/{OLDER}/0",
        500: f"main2/{OLDER}/0",
        600: f"main/{OLDER}/0",
    }
    node = MemorySystem(*(process(pid) for pid in (100, 200, 300, 400, 500)), process(600, state="Z"), markers=marks)
    assert [one.pid for one in strays(places, "main", snapshot(node))] == [200]
    (put(places, record(instance=OLDER)) / "record.json").unlink()
    assert [one.pid for one in strays(places, "main", snapshot(node))] == [200, 300]


class TestKeptWork:
    """Working directories that hold something of the program's."""

    def test_only_those_with_something_besides_copies(self, places: Places) -> None:
        put(places, record(), {"train.py": "x", "lib/y": "x"})
        write_json(f"{places.instance('main', INSTANCE)}/{MANIFEST}", {"train.py": "hash", "lib/y": "hash"})
        put(places, record(instance=OLDER), {"deep/checkpoint": "x"})
        assert kept_work(places, "main") == [places.work("main", OLDER)]
        Path(places.work("main", INSTANCE), "lib", "z").touch()
        assert kept_work(places, "main") == [places.work("main", OLDER), places.work("main", INSTANCE)]

    def test_none_where_nothing_is(self, places: Places) -> None:
        put(places, record())
        Path(places.work("main", INSTANCE)).mkdir()
        assert kept_work(places, "main") == kept_work(places, "other") == []

    @pytest.mark.parametrize(
        "text",
        ["{", "[]", "7"],
    )
    def test_with_a_damaged_list_of_copies_all_counts_as_the_programs(self, places: Places, text: str) -> None:
        put(places, record(), {"train.py": "x"})
        Path(places.instance("main", INSTANCE), MANIFEST).write_text(text)
        assert kept_work(places, "main") == [places.work("main", INSTANCE)]


class TestTail:
    """The last lines of a log."""

    @pytest.mark.parametrize(
        ("content", "lines"),
        [
            (b"", []),
            (b"one", ["one"]),
            (b"one\ntwo\n", ["one", "two"]),
            (b"\xff\n", ["\ufffd"]),
            ("größe 🎺\n".encode(), ["größe 🎺"]),
        ],
    )
    def test_lines(self, tmp_path: Path, content: bytes, lines: list[str]) -> None:
        (tmp_path / "log").write_bytes(content)
        assert tail(str(tmp_path / "log")) == lines

    def test_of_a_big_log_only_the_end_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(100_000)))
        assert tail(str(tmp_path / "log")) == [f"line {number}" for number in range(99_980, 100_000)]
        assert tail(str(tmp_path / "log"), 1) == ["line 99999"]

    def test_none_where_it_cannot_be_read(self, tmp_path: Path) -> None:
        assert tail(str(tmp_path / "missing")) == tail(str(tmp_path)) == []
