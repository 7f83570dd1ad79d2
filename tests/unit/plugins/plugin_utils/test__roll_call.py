"""The roll call and the receipts as tables."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.plugin_utils._roll_call import (
    BAD,
    GOOD,
    PLAIN,
    RANK_COLUMNS,
    RECEIPT_COLUMNS,
    Row,
    duration,
    joined,
    launch_failure,
    rank_rows,
    receipt_rows,
    size,
    table,
    unanswered,
    unproven,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h00m"),
        (11_100, "3h05m"),
        (86_399, "23h59m"),
        (86_400, "1d00h"),
        (187_200, "2d04h"),
        (400 * 86_400, "400d00h"),
    ],
)
def test_duration(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (None, "-"),
        (0, "0 MB"),
        (734_003_200, "734 MB"),
        (999_400_000, "999 MB"),
        (1_000_000_000, "1.0 GB"),
        (12_345_678_901, "12.3 GB"),
        (512_000_000_000, "512.0 GB"),
    ],
)
def test_size(count: int | None, words: str) -> None:
    assert size(count) == words


def rank(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A rank as rank_info returns it."""
    shown = {
        "run": "main",
        "rank": number,
        "pid": 100 + number,
        "state": "running",
        "age": 61.0,
        "memory": 5_000_000,
        "ports": [32323, 32324],
        "log": "/log",
    }
    return {**shown, **changes}


def test_rank_rows() -> None:
    rows, facts = rank_rows({"b": {"ranks": [rank(1)]}, "a": {"ranks": [rank(0)]}})
    assert [row.cells for row in rows] == [
        ("main", "0", "a", "100", "running", "1m", "5 MB", "32323,32324", "/log"),
        ("main", "1", "b", "101", "running", "1m", "5 MB", "32323,32324", "/log"),
    ]
    assert all(len(row.cells) == len(RANK_COLUMNS) for row in rows)
    assert [(fact["node"], fact["rank"]) for fact in facts] == [("a", 0), ("b", 1)]
    assert unanswered(facts) == ""


@pytest.mark.parametrize(
    ("state", "tone"),
    [
        ("running", GOOD),
        ("exited 0", GOOD),
        ("would start", GOOD),
        ("exited 7", BAD),
        ("killed by SIGKILL", BAD),
        ("dead", BAD),
        ("intended", BAD),
    ],
)
def test_tone_of_a_rank(state: str, tone: str) -> None:
    dead: dict[str, Any] = {} if state == "running" else {"pid": None, "age": None, "memory": None, "ports": []}
    ((row,), _facts) = rank_rows({"a": {"ranks": [rank(state=state, **dead)]}})
    assert row.tone == tone
    assert dead == {} or row.cells[3:8] == ("-", state, "-", "-", "-")


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({}, id="never ran"),
        pytest.param({"unreachable": True, "msg": "timed out"}, id="unreachable"),
        pytest.param({"failed": True, "msg": "the state directory is a symlink"}, id="failed"),
    ],
)
def test_a_node_that_does_not_answer_is_shown_last_and_never_silently_missing(result: dict[str, Any]) -> None:
    rows, facts = rank_rows({"a": result, "b": {"ranks": [rank()]}})
    assert [row.cells[2] for row in rows] == ["b", "a"]
    assert rows[-1].tone == BAD
    assert "a" in unanswered(facts)


def test_a_node_without_ranks_has_no_row() -> None:
    assert rank_rows({"a": {"ranks": []}}) == ([], [])


def test_runs_are_together_and_ranks_in_order() -> None:
    rows, _facts = rank_rows({"a": {"ranks": [rank(10), rank(2), rank(0, run="aux")]}, "b": {"ranks": [rank(1)]}})
    assert [row.cells[:2] for row in rows] == [("aux", "0"), ("main", "1"), ("main", "2"), ("main", "10")]


def receipt(*ranks: dict[str, Any], verdict: str = "clean", **changes: Any) -> dict[str, Any]:
    return {"receipt": {"run": "main", "verdict": verdict, "ranks": list(ranks), "problems": [], **changes}}


def stood_down(number: int = 0, **changes: Any) -> dict[str, Any]:
    shown = {
        "rank": number,
        "pid": 100,
        "was": "running",
        "signals": [["SIGTERM", 0.0], ["SIGKILL", 30.0]],
        "seconds": 30.128,
        "state": "killed by SIGKILL",
        "verdict": "clean",
        "left": [],
        "ports": [],
    }
    return {**shown, **changes}


@pytest.mark.parametrize(
    ("result", "cells", "tone", "verdict"),
    [
        pytest.param(
            receipt(stood_down()),
            ("main", "0", "a", "100", "running", "SIGTERM,SIGKILL", "30.13", "killed by SIGKILL", "clean"),
            GOOD,
            "clean",
            id="clean",
        ),
        pytest.param(
            receipt(stood_down(verdict="dirty", seconds=None, state="running"), verdict="dirty"),
            ("main", "0", "a", "100", "running", "SIGTERM,SIGKILL", "-", "running", "dirty"),
            BAD,
            "dirty",
            id="dirty",
        ),
        pytest.param(
            receipt(stood_down(pid=None, was="dead", signals=[], seconds=None, state="dead")),
            ("main", "0", "a", "-", "dead", "-", "-", "dead", "clean"),
            GOOD,
            "clean",
            id="was dead",
        ),
        pytest.param(receipt(), ("main", "-", "a", *"-----", "clean"), GOOD, "clean", id="had none"),
        pytest.param(receipt(verdict="dirty"), ("main", "-", "a", *"-----", "dirty"), BAD, "dirty", id="a stray only"),
        pytest.param({}, ("main", "-", "a", *"-----", "unknown"), BAD, "unknown", id="never ran"),
        pytest.param({"unreachable": True}, ("main", "-", "a", *"-----", "unknown"), BAD, "unknown", id="unreachable"),
        pytest.param(
            {"failed": True, "msg": "x"}, ("main", "-", "a", *"-----", "unknown"), BAD, "unknown", id="failed"
        ),
        pytest.param(
            {"changed": True, "ranks": [rank()]},
            ("main", "0", "a", "100", "running", "-", "-", "-", "would be stood down"),
            PLAIN,
            "check mode",
            id="check mode",
        ),
        pytest.param(
            {"changed": False, "ranks": []}, ("main", "-", "a", *"-----", "check mode"), PLAIN, "check mode", id="idle"
        ),
        pytest.param(
            {"skipped": True}, ("main", "-", "a", *"-----", "not looked at"), PLAIN, "not looked at", id="skipped"
        ),
    ],
)
def test_receipt_rows(result: dict[str, Any], cells: tuple[str, ...], tone: str, verdict: str) -> None:
    rows, facts = receipt_rows({"a": result}, "main")
    assert rows == [Row(cells, tone)]
    assert len(cells) == len(RECEIPT_COLUMNS)
    assert [(fact["node"], fact["verdict"]) for fact in facts] == [("a", verdict)]
    assert bool(unproven("main", facts)) == (verdict == "unknown")


COLUMNS = ("run", "log")
ROWS = [Row(("main", "/a/long/path"), GOOD), Row(("a-run", "-"), BAD)]


def test_table() -> None:
    assert table(COLUMNS, ROWS, None) == [
        ("run    log", PLAIN),
        ("main   /a/long/path", GOOD),
        ("a-run  -", BAD),
    ]
    assert table(COLUMNS, ROWS, 19) == table(COLUMNS, ROWS, None)
    assert table(COLUMNS, [], 80) == [("run  log", PLAIN)]


def test_a_table_that_is_too_wide_has_its_last_column_below() -> None:
    assert table(COLUMNS, ROWS, 18) == [
        ("run", PLAIN),
        ("main", GOOD),
        ("  log: /a/long/path", GOOD),
        ("a-run", BAD),
        ("  log: -", BAD),
    ]


def test_a_table_that_is_too_wide_loses_no_cell() -> None:
    rows, _facts = receipt_rows({"a": {"changed": True, "ranks": [rank()]}}, "main")
    lines = table(RECEIPT_COLUMNS, rows, 20)
    assert any("would be stood down" in line for line, _tone in lines)


def test_unproven_says_what_is_left_where() -> None:
    facts: list[dict[str, Any]] = [
        {"node": "a", "verdict": "clean", "problems": [], "ranks": [stood_down()]},
        {"node": "b", "verdict": "unknown"},
        {
            "node": "c",
            "verdict": "dirty",
            "problems": ["a record is damaged"],
            "ranks": [stood_down(2, left=["7 python3 (D)"], ports=["10.0.0.1:5 held by 7 x"])],
        },
    ]
    words = unproven("main", facts)
    assert words[0] == "Run main is not proven gone:"
    assert words[1].startswith("- b: unknown")
    assert words[2:] == [
        "- c: a record is damaged",
        "- c: rank 2, process 7 python3 (D) is left",
        "- c: rank 2, 10.0.0.1:5 held by 7 x",
    ]
    assert unproven("main", facts[:1]) == []


@pytest.mark.parametrize(
    ("results", "words", "silent"),
    [
        pytest.param(
            {"a": {"failed": True, "msg": "no model"}, "b": {"failed": True, "stood_down": True, "msg": "elsewhere"}},
            ["a: no model"],
            ["elsewhere"],
            id="not those that were stood down because of it",
        ),
        pytest.param(
            {"a": {"unreachable": True, "msg": "timed out"}, "b": {"changed": True}},
            ["a could not be reached: timed out"],
            ["b"],
            id="unreachable",
        ),
        pytest.param(
            {
                "a": {
                    "failed": True,
                    "msg": "lost peer",
                    "failed_at": 9.0,
                    "failures": [{"rank": 0, "state": "exited 1"}],
                },
                "b": {"failed": True, "msg": "no model", "failed_at": 5.0},
            },
            ["b: no model\n", "After that, on a: rank 0 exited 1"],
            ["lost peer"],
            id="the first first",
        ),
        pytest.param(
            {"a": {"failed": True, "stood_down": True}},
            ["A teardown, or another launch of this run, stood it down"],
            ["a:"],
            id="by a teardown",
        ),
    ],
)
def test_launch_failure(results: dict[str, Any], words: list[str], silent: list[str]) -> None:
    said = launch_failure("demo", results).replace("The launch of run demo failed.", "")
    assert all(word in said for word in words)
    assert not any(word in said.split() or f"{word}:" in said for word in silent)


def test_receipts_of_the_failed_start_are_shown_where_the_stand_down_had_nothing_left() -> None:
    launch = {"a": receipt(stood_down(0)), "b": receipt(stood_down(1), verdict="dirty"), "c": {}}
    results = {"a": receipt(), "b": receipt(), "c": receipt(stood_down(2)), "d": {"unreachable": True}}
    found = joined(launch, results)
    assert [one["rank"] for one in found["a"]["receipt"]["ranks"]] == [0]
    assert found["b"]["receipt"]["ranks"] == []
    assert [one["rank"] for one in found["c"]["receipt"]["ranks"]] == [2]
    assert found["d"] == {"unreachable": True}


def test_a_damaged_record_and_a_rank_without_one_are_shown_and_are_a_problem() -> None:
    path = "/home/me/.muster/runs/main/20261130T204500Z-0a1b2c3d/rank-2/record.json"
    result = {
        "ranks": [],
        "damaged": [{"path": path, "reason": "it is a symlink"}],
        "strays": [{"run": "main", "pid": 4711, "command": "python3"}],
    }
    rows, facts = rank_rows({"mac1": result})
    assert sorted((row.cells[1], row.cells[3], row.cells[4], row.tone) for row in rows) == [
        ("-", "4711", "no record", "bad"),
        ("2", "-", "damaged record", "bad"),
    ]
    problem = unanswered(facts)
    assert f"mac1: {path} cannot be believed (it is a symlink)" in problem
    assert "mac1: process 4711 is of run main, and no record names it" in problem
