"""The quarantine: who is put into it, and what ends it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._look import snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import Process
from ansible_collections.muster.mlx.plugins.module_utils._quarantine import (
    as_fact,
    lift_quarantine,
    put_in_quarantine,
    read_quarantine,
)
from ansible_collections.muster.mlx.plugins.module_utils._receipt import Receipt
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy
from ansible_collections.muster.mlx.plugins.module_utils._teardown import find, tear_down

from tests.unit.make import BOOT, process, put, record
from tests.unit.memory import MemorySystem, ignores

STUCK = process(state="D")


def noted(places: Places, *stuck: Process) -> None:
    put_in_quarantine(places, BOOT, 500.0, "main", stuck or (STUCK,))


def test_none_where_none_is(places: Places) -> None:
    assert read_quarantine(places, BOOT) is None
    assert lift_quarantine(places, BOOT, {}) is False
    assert not Path(places.root).exists()
    assert as_fact(None) is None


def test_it_says_who_and_what_to_do(places: Places) -> None:
    noted(places)
    note = read_quarantine(places, BOOT)
    assert note is not None
    assert "100 (python3)" in note.describe()
    assert "main" in note.describe()
    assert "Reboot" in note.describe()
    assert (as_fact(note) or {})["since"] == 500.0


def test_a_reboot_ends_it(places: Places) -> None:
    noted(places)
    assert read_quarantine(places, "later-boot") is None


@pytest.mark.parametrize(
    ("table", "lifted"),
    [
        pytest.param([STUCK], False, id="still there"),
        pytest.param([process()], False, id="still there, in another state"),
        pytest.param([], True, id="gone after all"),
        pytest.param([process(start="9000")], True, id="its pid is somebody else's now"),
        pytest.param([process(state="Z")], True, id="a zombie holds nothing"),
    ],
)
def test_it_is_lifted_once_all_are_gone(places: Places, table: list[Process], lifted: bool) -> None:
    noted(places)
    assert lift_quarantine(places, BOOT, {one.pid: one for one in table}) is lifted
    assert (read_quarantine(places, BOOT) is None) is lifted


def test_a_second_one_adds_to_the_first(places: Places) -> None:
    noted(places)
    noted(places, process(200, state="U"))
    assert lift_quarantine(places, BOOT, {100: STUCK}) is False
    assert lift_quarantine(places, BOOT, {200: process(200)}) is False
    assert lift_quarantine(places, BOOT, {}) is True


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boot": 1}', '{"boot": "x", "held": [7]}'])
def test_one_that_cannot_be_read_counts(places: Places, text: str) -> None:
    noted(places)
    (path,) = Path(places.root).glob("*.json")
    path.write_text(text)
    note = read_quarantine(places, BOOT)
    assert note is not None
    assert "cannot be read" in note.reason


def down(places: Places, node: MemorySystem, **policy: Any) -> Receipt:
    found = find(places, "main", "", snapshot(node))
    return tear_down(places, "main", found, Policy(grace=1, grace_max=1, **policy), 1.0, 10, node)


def test_a_teardown_that_sigkill_could_not_finish_puts_the_node_into_it_and_a_later_one_lifts_it(
    places: Places,
) -> None:
    put(places, record())
    node = MemorySystem(STUCK)
    receipt = down(places, node)
    assert (receipt.verdict, receipt.ranks[0].stuck) == ("dirty", (100,))
    assert "100 (python3)" in receipt.quarantine
    assert read_quarantine(places, BOOT) is not None
    node.end(100)
    assert (down(places, node).quarantine, read_quarantine(places, BOOT)) == ("", None)


def test_a_rank_that_was_left_on_request_is_no_reason(places: Places) -> None:
    put(places, record())
    node = MemorySystem(process())
    node.on(100, signal.SIGTERM, ignores)
    receipt = down(places, node, escalate=False)
    assert (receipt.verdict, receipt.quarantine) == ("dirty", "")
    assert read_quarantine(places, BOOT) is None
