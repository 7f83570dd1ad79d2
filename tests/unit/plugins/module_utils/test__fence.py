"""The fence: what it says on disk, and whether it came after a launch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import Fence, passed_since, raise_fence, read_fence
from ansible_collections.muster.mlx.plugins.module_utils._run import Places

NONE = Fence()
RAISED = Fence("abc", 1000.0, 1000.2)


@pytest.mark.parametrize(
    ("fence", "seen", "issued", "passed"),
    [
        pytest.param(NONE, "", 1000, False, id="none then, none now"),
        pytest.param(RAISED, "", 2000, True, id="none then, one now, whatever the clocks say"),
        pytest.param(RAISED, "abc", 0, False, id="the same then and now, whatever the clocks say"),
        pytest.param(RAISED, "old", 2000, True, id="another one since"),
        pytest.param(NONE, "old", 2000, True, id="gone since, so somebody meddled"),
        pytest.param(NONE, None, 1000, False, id="by the clock: none"),
        pytest.param(RAISED, None, 999, True, id="by the clock: launch issued before"),
        pytest.param(RAISED, None, 1000, True, id="by the clock: at the same instant the teardown wins"),
        pytest.param(RAISED, None, 1001, False, id="by the clock: launch issued after"),
    ],
)
def test_passed_since(fence: Fence, seen: str | None, issued: float, passed: bool) -> None:
    assert passed_since(fence, seen, issued) is passed


def test_none_where_no_teardown_passed(places: Places) -> None:
    assert read_fence(places, "main") == NONE
    assert not os.path.exists(places.root)


def test_a_raised_fence_comes_back_and_each_has_a_token_of_its_own(places: Places) -> None:
    first = raise_fence(places, "main", 1000.0, 1000.5)
    assert read_fence(places, "main") == first
    assert (first.issued, first.written) == (1000.0, 1000.5)
    second = raise_fence(places, "main", 1000.0, 1000.5)
    assert second.token not in ("", first.token)
    assert read_fence(places, "main") == second
    assert read_fence(places, "other") == NONE


def write(text: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(write(""), id="empty"),
        pytest.param(write("{"), id="truncated"),
        pytest.param(write("[]"), id="list"),
        pytest.param(write("null"), id="null"),
        pytest.param(write("{}"), id="no fields"),
        pytest.param(write(json.dumps({"token": "a", "issued": "x", "written": 1})), id="time in words"),
        pytest.param(write(json.dumps({"token": "a", "issued": None, "written": 1})), id="no time"),
        pytest.param(lambda path: path.symlink_to("elsewhere"), id="dangling symlink"),
        pytest.param(os.mkfifo, id="FIFO"),
        pytest.param(lambda path: path.mkdir(), id="directory"),
    ],
)
def test_a_fence_that_cannot_be_read_lets_nobody_pass(places: Places, damage: Callable[[Path], Any]) -> None:
    raise_fence(places, "main", 1000.0, 1000.5)
    path = Path(places.fence("main"))
    path.unlink()
    damage(path)
    with pytest.raises(MusterError, match=r"should hold the fence of run main.*Run teardown.yml"):
        read_fence(places, "main")


def test_a_teardown_writes_a_damaged_fence_anew(places: Places) -> None:
    raise_fence(places, "main", 1000.0, 1000.5)
    Path(places.fence("main")).write_text("{")
    raised = raise_fence(places, "main", 2000.0, 2000.5)
    assert read_fence(places, "main") == raised
