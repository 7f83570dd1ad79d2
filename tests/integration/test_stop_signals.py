"""How ranks are asked to end, and what happens to those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

HOSTS: dict[str, dict[str, Any]] = {"h1": {}, "h2": {}}


@pytest.fixture
def two(playbooks: Playbooks) -> Path:
    """Two hosts."""
    return playbooks.inventory(HOSTS)


def launch(playbooks: Playbooks, inventory: Path, program: str, word: str, **variables: Any) -> Outcome:
    """Launch a program that joins no ring, and wait until each rank has said the word."""
    outcome = playbooks.launch(
        program=[str(PROGRAMS / program)], mlx_ready="process", inventory=inventory, **variables
    ).ok()
    for rank in outcome.ranks:
        host, log = playbooks.fabric[rank["node"]], rank["log"]
        _nodes.eventually(lambda host=host, log=log: word in _nodes.read(host, log), f"{word!r} of {host}")
    return outcome


def signals(outcome: Outcome) -> dict[str, list[str]]:
    """Node → the signals that its rank got."""
    return {node: [name for name, _ in receipt["ranks"][0]["signals"]] for node, receipt in outcome.receipts.items()}


def test_a_program_that_cleans_up_when_interrupted(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """`mlx_stop_signals: [INT, TERM]`: SIGINT is enough, and what the program wrote as it ended is kept."""
    launch(playbooks, two, "tidy.py", "working")
    torn = playbooks.teardown(inventory=two, mlx_stop_signals=["INT", "TERM"]).ok()
    assert signals(torn) == {"h1": ["SIGINT"], "h2": ["SIGINT"]}
    for host in HOSTS:
        assert torn.receipts[host]["ranks"][0]["state"] == "exited 0"
        assert (
            _nodes.read(fabric[host], _nodes.only(fabric[host], "/root/.muster/runs/main/*/work/cleaned-up")) == "yes"
        )


def test_a_rank_that_ignores_the_signal(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """With mlx_escalate=false it stays, is known, and the play fails; with SIGKILL after mlx_grace it is gone."""
    first = launch(playbooks, two, "stubborn.py", "ignoring")
    left = playbooks.teardown(inventory=two, mlx_grace=0.5, mlx_grace_max=0.5, mlx_escalate=False)
    left.failed("process", "is left", "h1", "h2")
    assert signals(left) == {"h1": ["SIGTERM"], "h2": ["SIGTERM"]}
    assert {receipt["verdict"] for receipt in left.receipts.values()} == {"dirty"}
    status = playbooks.status(inventory=two).ok()
    assert [rank["state"] for rank in status.ranks] == ["running", "running"]
    assert status.pids == first.pids

    torn = playbooks.teardown(inventory=two, mlx_grace=1, mlx_grace_max=1).ok()
    assert signals(torn) == {"h1": ["SIGTERM", "SIGKILL"], "h2": ["SIGTERM", "SIGKILL"]}
    for receipt in torn.receipts.values():
        assert receipt["ranks"][0]["state"] == "killed by SIGKILL"
        (_, asked), (_, killed) = receipt["ranks"][0]["signals"]
        assert 1 <= killed - asked < 3
        assert 1 <= receipt["ranks"][0]["seconds"] < 3


def test_a_rank_that_is_paused(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """A stopped process gets no signal but SIGKILL until it goes on: it is let go on, and ends by SIGTERM."""
    first = launch(playbooks, two, "tidy.py", "working")
    fabric["h1"].run(["kill", "-STOP", str(first.pids["h1"][0])])
    torn = playbooks.teardown(inventory=two, mlx_grace=10).ok()
    assert signals(torn) == {"h1": ["SIGTERM"], "h2": ["SIGTERM"]}
    assert torn.receipts["h1"]["ranks"][0]["state"] == "killed by SIGTERM"
    assert torn.receipts["h1"]["ranks"][0]["seconds"] < 5


def test_a_child_that_left_the_group(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """A process in a session of its own still belongs to its rank, also when the rank itself was killed before."""
    first = launch(playbooks, two, "family.py", "child")
    fabric["h1"].run(["kill", "-KILL", str(first.pids["h1"][0])])
    _nodes.eventually(lambda: len(_nodes.ranks(fabric["h1"])) == 1, "the child alone on h1")
    torn = playbooks.teardown(inventory=two).ok()
    assert {receipt["verdict"] for receipt in torn.receipts.values()} == {"clean"}
    assert signals(torn) == {"h1": ["SIGTERM"], "h2": ["SIGTERM"]}
    assert _nodes.left(fabric) == []


def test_only_the_last_finished_instances_are_kept(playbooks: Playbooks, fabric: Fabric) -> None:
    """`mlx_keep: 1`: after three launches and teardowns the folder of the third is there, and no other."""
    one = playbooks.inventory({"h1": {}})
    for _ in range(3):
        launched = launch(playbooks, one, "tidy.py", "working", mlx_keep=1)
        playbooks.teardown(inventory=one, mlx_keep=1).ok()
    assert fabric["h1"].files("/root/.muster/runs/main/*") == [
        f"/root/.muster/runs/main/{launched.ranks[0]['instance']}"
    ]
