"""The decision for a whole run, from what every node showed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.plugin_utils._group import (
    check_fences,
    check_nodes,
    check_versions,
    decide_group,
)

from tests.unit.make import OLDER, record, sighting, specification

ROOT = "/state"
WANTED = {"a": [specification()], "b": [specification(rank=1)]}


def view(*sightings: Sighting, altered: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a node's preflight returns of these ranks, as it comes over the wire."""
    records = [
        {"record": one.record.to_json(), "alive": one.alive, "members": [vars(process) for process in one.members]}
        for one in sightings
    ]
    seen: dict[str, Any] = json.loads(json.dumps({"state_dir": ROOT, "records": records, "altered": altered}))
    return seen


def rank(number: int, lives: bool = True, **changes: Any) -> Sighting:
    one = record(rank=number, pid=100 + number, pgid=100 + number, **changes)
    return sighting(one, members=1 if lives else 0, alive=lives)


@pytest.fixture(autouse=True)
def works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instance's own working directory, as the records of these tests have it."""
    monkeypatch.setattr(Places, "work", lambda self, run, instance: "/work")


UP = {"a": view(rank(0)), "b": view(rank(1))}


@pytest.mark.parametrize(
    ("seen", "replace", "action"),
    [
        pytest.param({"a": view(), "b": view()}, False, "start", id="nothing anywhere"),
        pytest.param({"a": view(rank(0, False)), "b": view()}, False, "start", id="something dead"),
        pytest.param(UP, False, "keep", id="all up"),
        pytest.param(UP, True, "keep", id="all up, replace or not"),
        pytest.param({"a": view(rank(0)), "b": view()}, False, "replace", id="one node has nothing"),
        pytest.param({"a": view(rank(0)), "b": view(rank(1, False))}, False, "replace", id="one rank dead"),
        pytest.param({**UP, "b": view(rank(1, argv=("x",)))}, True, "replace", id="another program on one, replace"),
        pytest.param(
            {**UP, "b": view(rank(1), altered=("x is changed",))}, True, "replace", id="a copy changed, replace"
        ),
        pytest.param(
            {**UP, "b": view(rank(1, instance=OLDER))},
            False,
            "replace",
            id="two instances",
        ),
    ],
)
def test_decide_group(seen: Mapping[str, Mapping[str, Any]], replace: bool, action: str) -> None:
    decision = decide_group(WANTED, seen, replace)
    assert decision.action == action
    assert bool(decision.reason) == (action != "keep")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param({**UP, "b": view(rank(1, argv=("x",)))}, ["b: rank 1, program"], id="another program on one"),
        pytest.param(
            {"a": view(rank(0, argv=("x",))), "b": view(rank(1, size=3))},
            ["a: rank 0, program", "b: rank 1, number of ranks"],
            id="all are named",
        ),
        pytest.param(
            {**UP, "a": view(rank(0), altered=("/w/x is changed",))}, ["a: /w/x is changed"], id="a copy changed"
        ),
        pytest.param({**UP, "a": view(rank(1))}, ["a: rank 1: no longer wanted here"], id="another order of the hosts"),
    ],
)
def test_a_run_that_differs_is_refused_naming_node_and_difference(
    seen: Mapping[str, Mapping[str, Any]], words: list[str]
) -> None:
    with pytest.raises(MusterError, match="mlx_replace=true") as caught:
        decide_group(WANTED, seen, False)
    for word in words:
        assert f"\n- {word}" in str(caught.value)
    assert str(caught.value).count("\n- ") == len(words)
    assert all(word in decide_group(WANTED, seen, True).reason for word in words)


@pytest.mark.parametrize(
    ("versions", "agree"),
    [
        ({"mac1": "0.32.4", "mac2": "0.32.4"}, True),
        ({"mac1": None, "mac2": "0.32.4"}, True),
        ({"mac1": None, "mac2": None}, True),
        ({"mac1": "0.32.4", "mac2": "0.32.3"}, False),
        ({"mac1": "0.32.4", "mac2": None, "mac3": "0.31.0"}, False),
    ],
)
def test_check_versions(versions: dict[str, str | None], agree: bool) -> None:
    seen = {host: {"mlx_version": version} for host, version in versions.items()}
    if agree:
        check_versions(seen)
        return
    with pytest.raises(MusterError, match="same version of mlx") as caught:
        check_versions(seen)
    assert all(f"{host} has {version}" in str(caught.value) for host, version in versions.items() if version)


@pytest.mark.parametrize(
    ("places", "shared"),
    [
        ({"mac1": ("x", "/s"), "mac2": ("y", "/s")}, False),
        ({"mac1": ("x", "/s"), "mac2": ("x", "/t")}, False),
        ({"mac1": ("x", "/s"), "mac2": ("y", "/s"), "alias": ("x", "/s")}, True),
    ],
)
def test_check_nodes(places: dict[str, tuple[str, str]], shared: bool) -> None:
    seen = {host: {"boot": boot, "state_dir": folder} for host, (boot, folder) in places.items()}
    if not shared:
        check_nodes(seen)
        return
    with pytest.raises(MusterError, match="mac1 and alias are the same machine and both use /s"):
        check_nodes(seen)


@pytest.mark.parametrize(
    ("ages", "elapsed", "late"),
    [
        ({"a": None, "b": None}, 5, []),
        ({"a": 3600.0, "b": 5.1}, 5, []),
        ({"a": 4.9, "b": None}, 5, ["a"]),
        ({"a": 4.9, "b": 0.0, "c": 10}, 5, ["a", "b"]),
        ({"a": -2.0}, 5, ["a"]),
    ],
)
def test_check_fences(ages: dict[str, float | None], elapsed: float, late: list[str]) -> None:
    seen = {host: {"fence_age": age, "answered": 1000.0 + elapsed} for host, age in ages.items()}
    if not late:
        check_fences(seen, "main", 1000.0)
        return
    with pytest.raises(MusterError, match=f"passed on {', '.join(late)} after this launch was issued"):
        check_fences(seen, "main", 1000.0)
