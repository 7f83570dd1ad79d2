"""Leftovers and foreign ranks as rows: what is shown, in which tone, and what a playbook fails with."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.plugin_utils._clients import of_hosts
from ansible_collections.muster.mlx.plugins.plugin_utils._leftover_rows import (
    FOREIGN_COLUMNS,
    LEFTOVER_COLUMNS,
    foreign_rows,
    leftover_rows,
    leftovers_of,
    not_cleared,
)
from ansible_collections.muster.mlx.plugins.plugin_utils._roll_call import BAD, GOOD, PLAIN


def file(action: str, path: str = "/tmp/tmp.k3VdQ0xYbN") -> dict[str, Any]:
    return {"path": path, "owner": "mlx.launch", "action": action, "reason": "because"}


def rank(**changes: Any) -> dict[str, Any]:
    return {
        "pid": 4711, "rank": 2, "owner": "mlx.launch", "launcher": "unknown", "launched_by": "ssh from a port 1",
        "endpoint": "a:1", "age": 65.0, "memory": 7_000_000, "processes": [4711], "command": "python3 train.py",
        "coordination": "", "pid_file": "", **changes,
    }  # fmt: skip


def part(*decisions: dict[str, Any], foreign: tuple[dict[str, Any], ...] = (), **changes: Any) -> dict[str, Any]:
    return {"decisions": list(decisions), "foreign": list(foreign), **changes}


def decision(action: str) -> dict[str, Any]:
    return {"pid": 4711, "owner": "mlx.launch", "action": action, "reason": "because"}


def test_what_modules_return_and_what_a_teardown_returns() -> None:
    own = part(file("remove"))
    results: dict[str, Any] = {
        "a": own,
        "b": {"receipt": {}, "leftovers": own},
        "c": {},
        "d": {"unreachable": True, "msg": "x"},
        "e": {"skipped": True},
    }
    assert leftovers_of(results) == {"a": own, "b": own}


@pytest.mark.parametrize(
    ("action", "kept", "tone"),
    [
        ("remove", False, GOOD),
        ("remove", True, GOOD),
        ("report", False, BAD),
        ("keep", True, PLAIN),
        ("keep", False, None),
    ],
)
def test_leftover_rows(action: str, kept: bool, tone: str | None) -> None:
    rows = leftover_rows({"a": part(file(action), decision("report"))}, kept)
    assert [row.tone for row in rows] == ([tone] if tone else [])
    assert all(len(row.cells) == len(LEFTOVER_COLUMNS) for row in rows)
    if tone:
        assert rows[0].cells == ("a", "mlx.launch", action, "/tmp/tmp.k3VdQ0xYbN", "because")


@pytest.mark.parametrize(
    ("action", "ended", "shown", "tone"),
    [
        ("report", [], "left", BAD),
        ("end", [], "would be ended", PLAIN),
        ("end", [{"pid": 4711, "left": []}], "ended", GOOD),
        ("end", [{"pid": 4711, "left": ["4711 python3 (U)"]}], "not gone", BAD),
    ],
)
def test_foreign_rows(action: str, ended: list[dict[str, Any]], shown: str, tone: str) -> None:
    rows, facts = foreign_rows({"a": part(decision(action), foreign=(rank(),), ended=ended)}, {"a:1": "gone"})
    (row,) = rows
    assert len(row.cells) == len(FOREIGN_COLUMNS)
    assert row.cells[:4] == ("a", "4711", "2", "mlx.launch")
    assert row.cells[4:] == ("ssh from a port 1, mlx.launch there is gone", "1m", "7 MB", shown, "python3 train.py")
    assert row.tone == tone
    assert (facts[0]["launcher"], facts[0]["action"], facts[0]["node"]) == ("gone", shown, "a")


def test_a_rank_whose_number_and_age_are_not_known() -> None:
    rows, _facts = foreign_rows({"a": part(decision("report"), foreign=(rank(rank=None, age=None),))}, {})
    assert (rows[0].cells[2], rows[0].cells[5]) == ("-", "-")


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"a": part(), "b": part(problems=[])}, []),
        ({"a": part(), "b": {}}, ["- b: unknown"]),
        ({"a": {"unreachable": True}}, ["- a: unknown"]),
        (
            {"a": {"failed": True, "msg": "m", "problems": ["x is left", "y is left"]}},
            ["- a: x is left", "- a: y is left"],
        ),
        ({"a": {"failed": True, "msg": "no getconf"}}, ["- a: no getconf"]),
    ],
)
def test_not_cleared(results: dict[str, Any], words: list[str]) -> None:
    found = not_cleared(results)
    assert len(found) == (len(words) + 1 if words else 0)
    assert all(line.startswith(word) for line, word in zip(found[1:], words, strict=True))


def test_clients_of_hosts() -> None:
    results: dict[str, Any] = {
        "a": {"ssh_clients": {"a:1": "gone"}},
        "b": {"leftovers": {"ssh_clients": {"b:1": "alive"}}},
        "c": {},
        "d": {"unreachable": True},
    }
    assert of_hosts(results) == {"a:1": "gone", "b:1": "alive"}
