"""The states stopped and absent: what counts as a change, the fence, and check mode."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._ending import ended, ending_of
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import Fence, read_fence
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, Places

from tests.unit.make import INSTANCE, OLDER, options, process, put, record, tree
from tests.unit.memory import MemorySystem, ignores


def end(places: Places, node: MemorySystem, check: bool = False, **given: Any) -> dict[str, Any]:
    params = options("rank", **{"state": "absent", "grace": 1, "grace_max": 2, "issued": 2000.0, **given})
    return ended(places, ending_of(params), node, check)


def alive(places: Places) -> MemorySystem:
    put(places, record())
    return MemorySystem(process())


def dead(places: Places) -> MemorySystem:
    put(places, record())
    return MemorySystem()


def litter(places: Places) -> MemorySystem:
    folder = put(places, record())
    (folder / "record.json").unlink()
    return MemorySystem()


def finished(places: Places) -> MemorySystem:
    folder = put(places, record())
    for path in (folder / "record.json", folder / BEGAN, Path(places.coordination("main", INSTANCE, 0))):
        path.unlink()
    return MemorySystem()


def nothing(_places: Places) -> MemorySystem:
    return MemorySystem()


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("there", "state", "changed"),
    [
        (alive, "absent", True),
        (alive, "stopped", True),
        (dead, "absent", True),
        (dead, "stopped", False),
        (litter, "absent", True),
        (litter, "stopped", False),
        (finished, "absent", False),
        (nothing, "absent", False),
        (nothing, "stopped", False),
    ],
)
def test_changed(
    places: Places, there: Callable[[Places], MemorySystem], state: str, changed: bool, check: bool
) -> None:
    node = there(places)
    result = end(places, node, check, state=state)
    assert result["changed"] is changed
    assert (result["diff"]["before"] != {}) is (changed and there is not litter)
    assert result["diff"]["after"] == {}
    if not check:
        assert (result["verdict"], node.processes) == ("clean", {})
        again = end(places, node, state=state)
        assert (again["changed"], again["verdict"]) == (False, "clean")


@pytest.mark.parametrize("there", [alive, dead, litter, nothing])
def test_check_mode_sends_nothing_and_writes_nothing(places: Places, there: Callable[[Places], MemorySystem]) -> None:
    node = there(places)
    before = tree(places.root)
    result = end(places, node, check=True)
    assert (tree(places.root), node.sent) == (before, [])
    assert [one["rank"] for one in result["ranks"]] == ([0] if there in (alive, dead) else [])


def test_the_fence_is_up_before_the_first_signal(places: Places) -> None:
    node = alive(places)
    seen: list[Fence] = []

    def note(node: MemorySystem, pid: int) -> None:
        seen.append(read_fence(places, "main"))
        node.end(pid)

    node.on(100, signal.SIGTERM, note)
    node.wall = 5000.0
    end(places, node)
    assert [(bool(fence.token), fence.issued, fence.written) for fence in seen] == [(True, 2000.0, 5000.0)]


@pytest.mark.parametrize(
    ("given", "raised"), [({}, True), ({"state": "stopped"}, True), ({"raise_fence": False}, False)]
)
def test_a_fence_is_left_unless_told_otherwise_also_where_nothing_was(
    places: Places, given: dict[str, Any], raised: bool
) -> None:
    end(places, MemorySystem(), **given)
    assert bool(read_fence(places, "main").token) is raised


def test_what_is_left_fails_and_is_named(places: Places) -> None:
    node = alive(places)
    node.on(100, signal.SIGTERM, ignores)
    result = end(places, node, escalate=False)
    assert (result["failed"], result["verdict"]) == (True, "dirty")
    assert "rank 0: process 100 python3 (S) is still there" in result["msg"]
    assert os.path.exists(places.rank("main", INSTANCE, 0) + "/record.json")


def test_what_the_kernel_holds_needs_a_reboot(places: Places) -> None:
    put(places, record())
    result = end(places, MemorySystem(process(state="D")))
    assert result["failed"]
    assert "reboot" in result["msg"].lower()


def test_of_two_instances_one(places: Places) -> None:
    put(places, record(instance=OLDER, pid=200, pgid=200))
    node = alive(places)
    node.add(process(200))
    assert end(places, node, instance=INSTANCE)["verdict"] == "clean"
    assert list(node.processes) == [200]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"run": "../x"}, "run's name"),
        ({"instance": "../x"}, "instance is"),
        ({"stop_signals": ["TERM", "HARD"]}, "'HARD'"),
        ({"stop_signals": ["_DFL"]}, "'_DFL'"),
        ({"stop_signals": [""]}, "''"),
    ],
)
def test_what_cannot_be_asked_for(places: Places, given: dict[str, Any], words: str) -> None:
    with pytest.raises(MusterError, match=f"(?i){words}"):
        end(places, MemorySystem(), **given)
    assert not os.path.exists(places.root)


@pytest.mark.parametrize("name", ["INT", "int", "SIGINT", "sigint"])
def test_signals_by_any_of_their_names(name: str) -> None:
    params = options("rank", state="absent", stop_signals=[name, "TERM"])
    assert ending_of({**params, "issued": 1.0}).policy.steps == (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def test_no_signal_at_all(places: Places) -> None:
    node = alive(places)
    result = end(places, node, stop_signals=[], escalate=False)
    assert result["failed"]
