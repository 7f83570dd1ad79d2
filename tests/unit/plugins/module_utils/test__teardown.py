"""A teardown on a node in memory with a real state directory: what goes, what stays, and what the receipt says."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._look import snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import Listener
from ansible_collections.muster.mlx.plugins.module_utils._receipt import Receipt
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, MANIFEST, STAGING, Places
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import write_json
from ansible_collections.muster.mlx.plugins.module_utils._teardown import find, litter, tear_down

from tests.unit.make import INSTANCE, MARK, OLDER, process, put, record, tree
from tests.unit.memory import MemorySystem, ignores

SHORT = Policy(grace=5, grace_max=20)
HASH_OF_X = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def down(
    places: Places, node: MemorySystem, instance: str = "", keep: int | None = 10, policy: Policy = SHORT
) -> Receipt:
    """Look and tear down, as the module does."""
    return tear_down(places, "main", find(places, "main", instance, snapshot(node)), policy, 1000.0, keep, node)


def names(places: Places, instance: str = INSTANCE) -> set[str]:
    """Return what is in an instance's folder."""
    root = Path(places.instance("main", instance))
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_what_can_be_made_anew_goes_and_the_rest_stays(places: Places) -> None:
    folder = put(places, record(), {"train.py": "x", "checkpoint": "precious"})
    write_json(places.instance("main", INSTANCE) + "/" + MANIFEST, {"train.py": HASH_OF_X})
    for path in ("supervisor.py", "abort", STAGING + "/0", "rank-0/supervisor.log", "rank-0/exit.json", "x.1.new"):
        Path(places.instance("main", INSTANCE), path).parent.mkdir(exist_ok=True)
        Path(places.instance("main", INSTANCE), path).touch()
    receipt = down(places, MemorySystem(process()))
    assert names(places) == {"receipt.json", "rank-0", "rank-0/log", "rank-0/exit.json", "work", "work/checkpoint"}
    assert receipt.verdict == "clean"
    gone = {os.path.relpath(path, places.instance("main", INSTANCE)) for path in receipt.files_removed}
    assert gone == {
        "abort",
        "supervisor.py",
        STAGING,
        MANIFEST,
        "work/train.py",
        "rank-0/supervisor.log",
        "rank-0/record.json",
        f"rank-0/{BEGAN}",
        f"rank-0/hosts-{INSTANCE}-0.json",
        "x.1.new",
    }
    assert set(receipt.files_left) == {places.work("main", INSTANCE), str(folder / "log")}


def test_a_supervisors_log_that_says_something_stays(places: Places) -> None:
    folder = put(places, record())
    (folder / "supervisor.log").write_text("Traceback")
    down(places, MemorySystem(process()))
    assert {path.name for path in folder.iterdir()} == {"log", "supervisor.log"}


def test_an_empty_working_directory_goes(places: Places) -> None:
    put(places, record())
    Path(places.work("main", INSTANCE)).mkdir()
    receipt = down(places, MemorySystem(process()))
    assert not os.path.exists(places.work("main", INSTANCE))
    assert places.work("main", INSTANCE) not in receipt.files_left


def test_records_go_last(places: Places) -> None:
    """So that a teardown which is cut off leaves no rank without its record."""
    for rank in (0, 1):
        put(places, record(rank=rank))
    found = litter(places, "main", INSTANCE)
    assert [os.path.basename(path) for path in found[-2:]] == ["record.json", "record.json"]
    assert not any(path.endswith("record.json") for path in found[:-2])


def test_the_receipt_says_how_it_went_and_stays_on_the_node(places: Places) -> None:
    put(places, record())
    node = MemorySystem(process())
    node.on(100, signal.SIGTERM, ignores)
    receipt = down(places, node)
    (rank,) = receipt.ranks
    assert (rank.pid, rank.start, rank.was, rank.verdict) == (100, "5000", "running", "clean")
    assert [name for name, _seconds in rank.signals] == ["SIGTERM", "SIGKILL"]
    assert rank.seconds == pytest.approx(5, abs=0.5)
    assert (receipt.run, receipt.issued) == ("main", 1000.0)
    assert receipt.ended - receipt.began == pytest.approx(rank.seconds, abs=0.1)
    with open(places.instance("main", INSTANCE) + "/receipt.json", encoding="utf-8") as file:
        assert json.load(file) == json.loads(json.dumps(receipt.to_json()))


def test_stopped_removes_nothing(places: Places) -> None:
    folder = put(places, record())
    before = tree(folder)
    receipt = down(places, MemorySystem(process()), keep=None)
    assert (receipt.verdict, receipt.files_removed) == ("clean", ())
    assert tree(folder) == before


@pytest.mark.parametrize(
    ("state", "policy", "stuck"),
    [("S", Policy(grace=1, grace_max=1, escalate=False), ()), ("D", SHORT, (100,))],
)
def test_what_is_left_keeps_its_record_and_all_its_files(
    places: Places, state: str, policy: Policy, stuck: tuple[int, ...]
) -> None:
    folder = put(places, record())
    node = MemorySystem(process(state=state))
    node.on(100, signal.SIGTERM, ignores)
    before = tree(folder)
    receipt = down(places, node, policy=policy)
    assert receipt.verdict == "dirty"
    assert (receipt.ranks[0].left, receipt.ranks[0].stuck) == ((f"100 python3 ({state})",), stuck)
    assert receipt.files_removed == ()
    assert tree(folder) == before


def test_only_the_instance_that_was_asked_for(places: Places) -> None:
    put(places, record())
    put(places, record(instance=OLDER, pid=200, pgid=200))
    node = MemorySystem(process(), process(200))
    receipt = down(places, node, INSTANCE)
    assert [rank.instance for rank in receipt.ranks] == [INSTANCE]
    assert list(node.processes) == [200]
    assert "rank-0/record.json" in names(places, OLDER)


class TestDirt:
    """What keeps a node from being clean though no recorded process is left."""

    def test_a_damaged_record_is_named_and_its_instance_left_alone(self, places: Places) -> None:
        put(places, record())
        folder = put(places, record(rank=1, pid=200, pgid=200))
        (folder / "record.json").write_text("{")
        node = MemorySystem(process(), process(200))
        receipt = down(places, node)
        assert receipt.verdict == "dirty"
        assert str(folder / "record.json") in receipt.problems[0]
        assert (node.signals(200), list(node.processes)) == ([], [200])
        assert {"rank-0/record.json", "rank-1/record.json"} <= names(places)

    def test_a_process_with_the_marker_of_an_unknown_rank_is_named_and_not_touched(self, places: Places) -> None:
        put(places, record(instance=OLDER))
        node = MemorySystem(process(300), markers={300: f"main/{OLDER}/5"})
        receipt = down(places, node)
        assert receipt.verdict == "dirty"
        assert "process 300 (python3)" in receipt.problems[0]
        assert node.sent == []

    @pytest.mark.parametrize(
        ("listener", "marker", "dirty"),
        [
            pytest.param(Listener("10.0.0.1", 32323, 300, "nc"), "", True, id="its address"),
            pytest.param(Listener("0.0.0.0", 32323, None, ""), "", True, id="all addresses, somebody else"),
            pytest.param(Listener("127.0.0.1", 32323, 300, "nc"), "", False, id="another address"),
            pytest.param(Listener("10.0.0.1", 32324, 300, "nc"), "", False, id="another port"),
            pytest.param(Listener("0.0.0.0", 32323, 300, "x"), f"other/{OLDER}/0", False, id="a rank of another run"),
        ],
    )
    def test_a_port_that_still_listens(self, places: Places, listener: Listener, marker: str, dirty: bool) -> None:
        put(places, record())
        node = MemorySystem(process(), process(300), markers={300: marker} if marker else {})
        node.sockets = [listener]
        receipt = down(places, node)
        assert (receipt.verdict == "dirty", bool(receipt.ranks[0].ports)) == (dirty, dirty)

    def test_the_port_of_a_rank_that_was_dead_before_may_be_anybodys(self, places: Places) -> None:
        put(places, record())
        node = MemorySystem(process(300))
        node.sockets = [Listener("10.0.0.1", 32323, 300, "nc")]
        receipt = down(places, node)
        assert (receipt.verdict, receipt.ranks[0].was, receipt.ranks[0].signals) == ("clean", "dead", ())

    def test_a_file_that_cannot_be_removed(self, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        put(places, record())
        unlink = os.unlink

        def refuse(path: Any, **options: Any) -> None:
            if str(path).endswith("record.json"):
                raise PermissionError(1, "Operation not permitted", path)
            unlink(path, **options)

        monkeypatch.setattr(os, "unlink", refuse)
        receipt = down(places, MemorySystem(process()))
        assert receipt.verdict == "dirty"
        assert "record.json could not be removed: Operation not permitted" in receipt.problems[0]
        assert not any(path.endswith("record.json") for path in receipt.files_removed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
    ],
)
def test_a_damaged_list_of_copies_does_not_hinder(places: Places, text: str) -> None:
    put(places, record(), {"train.py": "x"})
    Path(places.instance("main", INSTANCE), MANIFEST).write_text(text)
    receipt = down(places, MemorySystem(process(), markers={100: MARK}))
    assert receipt.ranks[0].verdict == "clean"
    assert os.path.exists(places.work("main", INSTANCE) + "/train.py")


def test_a_teardown_of_nothing_is_clean_and_writes_nothing(places: Places) -> None:
    node = MemorySystem(process(1))
    found = find(places, "main", "", snapshot(node))
    assert not found.anything
    receipt = down(places, node)
    assert (receipt.verdict, receipt.ranks, receipt.files_removed) == ("clean", (), ())
    assert not os.path.exists(places.root)


def test_old_instances_beyond_keep_go(places: Places) -> None:
    for instance in (OLDER, INSTANCE):
        (put(places, record(instance=instance)) / "exit.json").touch()
    down(places, MemorySystem(), keep=1)
    assert os.listdir(places.run("main")) == [INSTANCE]
