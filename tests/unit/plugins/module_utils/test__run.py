"""Names of runs and instances, and places that nothing may lie outside of."""

from __future__ import annotations

import os

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._process import Identity
from ansible_collections.muster.mlx.plugins.module_utils._run import (
    Places,
    check_instance_name,
    check_run_name,
)

from tests.unit.make import BOOT, INSTANCE, intended, record

PLACES = Places("/state")
BAD_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "A",
    "a b",
    "a\n",
    "a\0",
    "-a",
    ".a",
    "_a",
    "ä",
    "a" * 64,
    "main/../x",
]


@pytest.mark.parametrize("name", ["a", "0", "main", "a.b-c_1", "a..", "2026", "a" * 63])
def test_a_good_run_name(name: str) -> None:
    assert check_run_name(name) == name
    assert os.path.normpath(PLACES.run(name)) == PLACES.run(name)


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("use", [check_run_name, PLACES.run, PLACES.fence, lambda name: PLACES.rank(name, INSTANCE, 0)])
def test_a_bad_run_name(name: str, use: object) -> None:
    with pytest.raises(MusterError, match="run's name"):
        use(name)  # type: ignore[operator]


@pytest.mark.parametrize(
    "name",
    [
        *BAD_NAMES,
        "20261130T204500Z",
        INSTANCE.upper(),
        INSTANCE + "0",
        INSTANCE + "\n",
        "x" + INSTANCE,
        "../" + INSTANCE,
    ],
)
@pytest.mark.parametrize("use", [check_instance_name, lambda name: PLACES.work("main", name)])
def test_a_bad_instance_name(name: str, use: object) -> None:
    with pytest.raises(MusterError, match="instance is named like"):
        use(name)  # type: ignore[operator]


def test_all_places_are_below_the_root_and_each_is_its_own() -> None:
    places = [
        PLACES.runs,
        PLACES.run("main"),
        PLACES.instance("main", INSTANCE),
        PLACES.work("main", INSTANCE),
        PLACES.rank("main", INSTANCE, 0),
        PLACES.rank("main", INSTANCE, 1),
        PLACES.coordination("main", INSTANCE, 0),
        PLACES.coordination("main", INSTANCE, 1),
        PLACES.fence("main"),
        PLACES.lock("launch-main"),
    ]
    assert all(path.startswith("/state/") and os.path.normpath(path) == path for path in places)
    assert len(set(places)) == len(places)


def test_a_coordination_file_is_told_apart_by_its_name_alone() -> None:
    other = "20261130T204500Z-ffffffff"
    paths = [PLACES.coordination("main", name, rank) for name in (INSTANCE, other) for rank in (0, 1)]
    assert len({os.path.basename(path) for path in paths}) == 4


def test_who_a_record_is() -> None:
    one = record(rank=1, supervisor_pid=90, supervisor_start="4990")
    assert one.identity == Identity(100, "5000", BOOT)
    assert one.supervisor == Identity(90, "4990", BOOT)
    assert one.marker == f"main/{INSTANCE}/1"
    assert one.addresses == ("10.0.0.2:32324",)
    assert record(hosts=(), size=1).addresses == ()
    assert (intended().identity, intended().supervisor) == (None, None)
