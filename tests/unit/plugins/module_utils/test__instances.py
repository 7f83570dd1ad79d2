"""Muster's own leftovers: instances whose ranks are gone, and every reason to keep one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._instances import Instance, find_instances, remove_instances
from ansible_collections.muster.mlx.plugins.module_utils._look import snapshot
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import lock
from ansible_collections.muster.mlx.plugins.module_utils._teardown import litter

from tests.unit.foreign_node import ForeignNode
from tests.unit.make import INSTANCE, MARK, OLDER, intended, process, put, record, tree


def look(places: Places, node: ForeignNode) -> list[Instance]:
    return find_instances(places, snapshot(node))


def only(places: Places, node: ForeignNode) -> tuple[str, str]:
    (one,) = look(places, node)
    assert one.finding.path == places.instance(one.run, one.name)
    return one.finding.action, one.finding.reason


def test_its_ranks_are_gone(places: Places) -> None:
    put(places, record())
    assert only(places, ForeignNode()) == ("remove", "its ranks are gone")


def test_a_record_of_another_boot_is_dead_whoever_has_its_pid_now(places: Places) -> None:
    put(places, record(boot="earlier"))
    assert only(places, ForeignNode(process()))[0] == "remove"


def test_a_pid_that_somebody_else_has_now_keeps_nothing(places: Places) -> None:
    put(places, record())
    assert only(places, ForeignNode(process(start="9999")))[0] == "remove"


def test_one_that_a_teardown_has_cleaned_is_not_worth_a_word(places: Places) -> None:
    put(places, record())
    for path in litter(places, "main", INSTANCE):
        os.unlink(path)
    assert look(places, ForeignNode()) == []


def marked_child(node: ForeignNode) -> None:
    node.plain(150, "helper")
    node.environs[150] = {"MUSTER_RANK": MARK}


def marked_stranger(node: ForeignNode) -> None:
    node.plain(150, "helper")
    node.environs[150] = {"MUSTER_RANK": f"main/{INSTANCE}/7"}


@pytest.mark.parametrize(
    ("one", "happen", "reason"),
    [
        pytest.param(record(), lambda node: node.add(process()), "process 100 of rank 0 lives", id="its rank lives"),
        pytest.param(record(), marked_child, "process 150 of rank 0 lives", id="a child of its rank lives"),
        pytest.param(record(), marked_stranger, "process 150 carries its marker", id="somebody carries its marker"),
        pytest.param(
            record(supervisor_pid=90, supervisor_start="4990"),
            lambda node: node.add(process(90, start="4990")),
            "the supervisor of rank 0 is still at work",
            id="its supervisor has not finished",
        ),
        pytest.param(
            intended(created=1_000_000.0 - 59), lambda node: None, "rank 0 is being started", id="it is being started"
        ),
    ],
)
def test_what_keeps_one(places: Places, one: Record, happen: Callable[[ForeignNode], Any], reason: str) -> None:
    put(places, one)
    node = ForeignNode()
    happen(node)
    assert only(places, node) == ("keep", reason)


def test_a_rank_that_was_intended_long_ago_never_came(places: Places) -> None:
    put(places, intended(created=1_000_000.0 - 61))
    assert only(places, ForeignNode())[0] == "remove"


def test_a_damaged_record_keeps_all_of_it(places: Places) -> None:
    folder = put(places, record())
    (folder / "record.json").write_text("{")
    action, reason = only(places, ForeignNode())
    assert action == "keep"
    assert "cannot be believed" in reason


@pytest.mark.parametrize(("age", "action"), [(59, "keep"), (61, "remove")])
def test_files_without_any_record_are_kept_while_they_may_be_being_made(
    places: Places, age: float, action: str
) -> None:
    put(places, record())
    Path(places.rank("main", INSTANCE, 0), "record.json").unlink()
    os.utime(places.instance("main", INSTANCE), (0, 1_000_000.0 - age))
    assert only(places, ForeignNode())[0] == action


class TestRemove:
    """What can be made anew goes; no process is signalled."""

    def test_record_and_coordination_file_go_and_logs_stay(self, places: Places) -> None:
        folder = put(places, record(), {"checkpoint": "precious"})
        node = ForeignNode()
        expected = litter(places, "main", INSTANCE)
        removed, changed, problems = remove_instances(places, look(places, node), 10, node)
        assert sorted(removed) == sorted(expected)
        assert {f"hosts-{INSTANCE}-0.json", "record.json"} <= set(map(os.path.basename, removed))
        assert (changed, problems, node.sent) == ([], [], [])
        assert sorted(path.name for path in folder.iterdir()) == ["log"]
        assert Path(places.work("main", INSTANCE), "checkpoint").read_text() == "precious"
        assert look(places, node) == []

    def test_every_run_and_every_dead_instance(self, places: Places) -> None:
        ranks = (record(), record(instance=OLDER), record(run="other"))
        for one in ranks:
            put(places, one)
        node = ForeignNode()
        expected = [path for one in ranks for path in litter(places, one.run, one.instance)]
        assert sorted(remove_instances(places, look(places, node), 10, node)[0]) == sorted(expected)

    def test_beside_one_that_lives(self, places: Places) -> None:
        put(places, record(instance=OLDER, pid=90, pgid=90))
        living = put(places, record())
        node = ForeignNode(process())
        before = tree(living)
        removed, _changed, problems = remove_instances(places, look(places, node), 10, node)
        assert all(OLDER in path for path in removed)
        assert (problems, node.sent, tree(living)) == ([], [], before)

    def test_one_that_lives_after_all_is_kept(self, places: Places) -> None:
        """Its supervisor gave birth between the decision and the act."""
        put(places, intended(created=1.0))
        node = ForeignNode()
        found = look(places, node)
        put_again = Path(places.rank("main", INSTANCE, 0), "record.json")
        put_again.unlink()
        Path(places.coordination("main", INSTANCE, 0)).unlink()
        (put_again.parent / "log").unlink()
        put(places, record())
        node.add(process())
        removed, changed, problems = remove_instances(places, found, 10, node)
        assert (removed, problems, node.sent) == ([], [], [])
        assert [one.reason for one in changed] == ["process 100 of rank 0 lives"]

    @pytest.mark.parametrize("name", ["launch-main", "teardown-main"])
    def test_one_that_somebody_is_at_work_on_is_kept(self, places: Places, name: str) -> None:
        put(places, record())
        node = ForeignNode()
        with lock(places, name, 0):
            removed, changed, problems = remove_instances(places, look(places, node), 10, node)
        assert (removed, problems) == ([], [])
        assert [one.reason for one in changed] == ["a launch or a teardown of run main is at work"]
