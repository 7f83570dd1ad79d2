"""Records on disk: what comes back, and every way in which one cannot be believed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._run import Damaged, Exit, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import (
    make_private,
    read_exit,
    read_record,
    records,
    write_json,
)

from tests.unit.make import INSTANCE, OLDER, intended, needs_root, put, record


def read(places: Places) -> Record | Damaged | None:
    return read_record(places, "main", INSTANCE, 0)


@pytest.mark.parametrize(
    "one",
    [
        record(),
        intended(),
        record(
            argv=("python3", "-c", "print('a\nb 🎺')"), cwd="/tmp/größe", environment={"A": "ff"}, files={"a/b": "0"}
        ),
        record(
            hosts=(("10.0.0.1:1", "10.0.1.1:2"), ("10.0.0.2:3", "10.0.1.2:4")), supervisor_pid=9, supervisor_start="1"
        ),
        record(hosts=(("10.0.0.1:1",),), size=1, issued=1, created=2, born=3),
    ],
)
def test_round_trip(places: Places, one: Record) -> None:
    put(places, one)
    assert read(places) == one


def test_none_where_there_is_none(places: Places) -> None:
    assert read(places) is None
    make_private(places, places.rank("main", INSTANCE, 0))
    assert read(places) is None
    assert records(places, "main") == []


def test_records_come_with_the_oldest_instance_first_and_the_damaged_among_them(places: Places) -> None:
    for one in (record(rank=1), record(rank=0), record(instance=OLDER)):
        put(places, one)
    (Path(places.rank("main", INSTANCE, 0)) / "record.json").write_text("{")
    first, second, third = records(places, "main")
    assert first == record(instance=OLDER)
    assert isinstance(second, Damaged)
    assert third == record(rank=1)


def as_symlink(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def as_dangling_symlink(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda path: path.write_text(""), "Expecting value", id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-20]), "line", id="truncated"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe\x00"), "utf-8|Expecting value", id="binary"),
        pytest.param(lambda path: path.write_bytes(bytes(1000)), "Expecting value", id="zeroes, as after a power cut"),
        pytest.param(lambda path: path.write_text("1" * 5000), "digits", id="endless number"),
        pytest.param(as_symlink, "it is a symlink", id="symlink"),
        pytest.param(as_dangling_symlink, "it is a symlink", id="dangling symlink"),
        pytest.param(as_directory, "directory|no regular file", id="directory"),
        pytest.param(as_fifo, "no regular file", id="FIFO"),
        pytest.param(lambda path: os.truncate(path, 5 << 20), "5242880 bytes", id="too large"),
        pytest.param(lambda path: os.chown(path, 4242, 0), "user id 4242", id="other owner", marks=needs_root),
        pytest.param(lambda path: path.write_text("[" * 200_000), "nest|recursion|deep", id="endless nesting"),
    ],
)
def test_a_damaged_file(places: Places, damage: Callable[[Path], Any], reason: str) -> None:
    path = put(places, record()) / "record.json"
    damage(path)
    found = read(places)
    assert isinstance(found, Damaged)
    assert found.path == str(path)
    assert re.search(reason, found.reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"instance": OLDER}, OLDER, id="another instance's"),
        pytest.param({"rank": 1}, "/1", id="another rank's"),
        pytest.param({"run": "other"}, "other/", id="another run's"),
        pytest.param({"run": "../../etc"}, "names run", id="run that would leave"),
        pytest.param({"instance": "../x"}, "names run", id="instance that would leave"),
        pytest.param({"schema": 2}, "schema", id="schema of a later Muster"),
        pytest.param({"schema": "1"}, "schema", id="schema as a word"),
        pytest.param({"schema": True}, "schema", id="schema as a truth"),
        pytest.param({"pid": "100"}, "'pid'", id="pid as a word"),
        pytest.param({"pid": True}, "'pid'", id="pid as a truth"),
        pytest.param({"pid": 100.5}, "'pid'", id="half a pid"),
        pytest.param({"pid": 0, "pgid": 0}, "pid is 0", id="pid 0, which is one's own group"),
        pytest.param({"pid": 1, "pgid": 1}, "pid is 1", id="pid of init"),
        pytest.param({"pid": -1, "pgid": -1}, "pid is -1", id="pid -1, which is everybody"),
        pytest.param({"pgid": 101}, "group 101", id="group that it does not lead"),
        pytest.param({"pgid": None}, "group None", id="no group"),
        pytest.param({"start": ""}, "pid is 100", id="no start"),
        pytest.param({"start": 5000}, "'start'", id="start as a number"),
        pytest.param({"boot": None}, "'boot'", id="no boot"),
        pytest.param({"argv": "python3"}, "'argv'", id="argv as one word"),
        pytest.param({"hosts": {"0": []}}, "'hosts'", id="hosts as a dict"),
        pytest.param({"environment": ["A"]}, "'environment'", id="environment as a list"),
        pytest.param({"files": None}, "'files'", id="no files"),
        pytest.param({"issued": "now"}, "'issued'", id="issued in words"),
        pytest.param({"fence": None}, "'fence'", id="no fence"),
        pytest.param({"born": "today"}, "'born'", id="born in words"),
        pytest.param({"hosts": ["10.0.0.1:1", "10.0.0.2:2"]}, "'hosts'", id="row of hosts as a word"),
        pytest.param({"hosts": [None, None]}, "'hosts'", id="no rows of hosts"),
        pytest.param({"hosts": [[1], [2]]}, "'hosts'", id="hosts as numbers"),
        pytest.param({"hosts": [["a"], ["b"]]}, "'hosts'", id="hosts without ports"),
        pytest.param({"argv": []}, "'argv'", id="no program"),
        pytest.param({"argv": [["python3"], 7]}, "'argv'", id="argv of no words"),
        pytest.param({"files": {"a": 1}}, "'files'", id="hash as a number"),
        pytest.param({"key": "no hex"}, "'key'", id="key that is none"),
    ],
)
def test_a_record_of_the_wrong_kind(places: Places, changes: dict[str, Any], reason: str) -> None:
    path = put(places, record()) / "record.json"
    path.write_text(json.dumps({**record().to_json(), **changes}))
    found = read(places)
    assert isinstance(found, Damaged)
    assert reason in found.reason


@pytest.mark.parametrize("name", sorted(record().to_json()))
def test_a_record_without_a_field(places: Places, name: str) -> None:
    data = {key: value for key, value in intended().to_json().items() if key != name}
    (put(places, intended()) / "record.json").write_text(json.dumps(data))
    assert isinstance(read(places), Damaged)


@pytest.mark.parametrize("text", ["null", "[]", "{}", '"record"', "1", "NaN", '{"schema": 1}', "[[]]"])
def test_json_of_another_shape(places: Places, text: str) -> None:
    (put(places, record()) / "record.json").write_text(text)
    assert isinstance(read(places), Damaged)


def test_what_a_later_muster_adds_does_not_hurt(places: Places) -> None:
    (put(places, record()) / "record.json").write_text(json.dumps({**record().to_json(), "colour": "red"}))
    assert read(places) == record()


@pytest.mark.parametrize("code", [0, 7, 255])
@pytest.mark.parametrize("unborn", ["", "cannot run x"])
def test_an_exit_comes_back(places: Places, code: int, unborn: str) -> None:
    folder = put(places, record())
    write_json(str(folder / "exit.json"), {"code": code, "signal": None, "time": 5, "unborn": unborn})
    assert read_exit(places, record()) == Exit(code, None, 5.0, unborn)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"code": null, "signal": null, "time": 5}',
        '{"code": 0, "signal": 9, "time": 5}',
        '{"code": "0", "signal": null, "time": 5}',
        '{"code": 0, "signal": null}',
        '{"code": 0, "signal": null, "time": "late"}',
    ],
)
def test_an_exit_that_cannot_be_believed_counts_as_none(places: Places, text: str) -> None:
    (put(places, record()) / "exit.json").write_text(text)
    assert read_exit(places, record()) is None


def test_an_exit_behind_a_symlink_counts_as_none(places: Places) -> None:
    folder = put(places, record())
    (folder / "elsewhere").write_text('{"code": 0, "signal": null, "time": 5}')
    (folder / "exit.json").symlink_to("elsewhere")
    assert read_exit(places, record()) is None


def test_an_exit_that_is_a_directory_counts_as_none(places: Places) -> None:
    (put(places, record()) / "exit.json").mkdir()
    assert read_exit(places, record()) is None
