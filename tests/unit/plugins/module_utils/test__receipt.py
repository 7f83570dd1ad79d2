"""The verdict of a receipt, and its plain form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._receipt import RankReceipt, Receipt

from tests.unit.make import BOOT, INSTANCE, START

RANK = RankReceipt(
    rank=0,
    instance=INSTANCE,
    pid=100,
    start=START,
    boot=BOOT,
    program=("python3", "train.py"),
    was="running",
    state="killed by SIGTERM",
    signals=(("SIGTERM", 0.0),),
    seconds=0.04,
    left=(),
    stuck=(),
    ports=(),
    log="/log",
)
RECEIPT = Receipt(
    run="main",
    issued=1.0,
    began=2.0,
    ended=3.0,
    boot=BOOT,
    ranks=(RANK,),
    problems=(),
    files_removed=("/a",),
    files_left=(),
    wired_before=None,
    wired_after=None,
)


@pytest.mark.parametrize(
    ("rank", "receipt", "verdict"),
    [
        ({}, {}, "clean"),
        ({}, {"ranks": ()}, "clean"),
        ({"signals": (), "seconds": None, "was": "dead"}, {}, "clean"),
        ({"left": ("100 python3 (S)",)}, {}, "dirty"),
        ({"left": ("100 python3 (D)",), "stuck": (100,)}, {}, "dirty"),
        ({"ports": ("10.0.0.1:5 held by 7 x",)}, {}, "dirty"),
        ({}, {"problems": ("a record cannot be believed",)}, "dirty"),
        ({}, {"ranks": (), "problems": ("a stray",)}, "dirty"),
        ({}, {"files_left": ("/log",)}, "clean"),
    ],
)
def test_verdict(rank: dict[str, Any], receipt: dict[str, Any], verdict: str) -> None:
    ranks = receipt.get("ranks", (replace(RANK, **rank),))
    assert replace(RECEIPT, **{**receipt, "ranks": ranks}).verdict == verdict


def test_one_dirty_rank_is_enough() -> None:
    assert replace(RECEIPT, ranks=(RANK, replace(RANK, rank=1, left=("7 x (S)",)), RANK)).verdict == "dirty"


def test_plain_form() -> None:
    data = json.loads(json.dumps(RECEIPT.to_json()))
    assert data["verdict"] == data["ranks"][0]["verdict"] == "clean"
    assert data["ranks"][0]["signals"] == [["SIGTERM", 0.0]]
    assert data["ranks"][0]["program"] == ["python3", "train.py"]
    assert (data["problems"], data["files_removed"], data["wired_before"]) == ([], ["/a"], None)
