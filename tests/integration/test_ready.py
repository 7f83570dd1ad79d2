"""How a group proves that it is up: `log`, `port`, `process`, and `ring` for a program that ends by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import ALL_SUM, PROGRAMS, Playbooks

SERVE = [str(PROGRAMS / "serve.py"), "8765"]
PORT = {"mlx_ready": "port", "mlx_ready_port": 8765}
LOG = {"mlx_ready": "log", "mlx_ready_pattern": r"^Uvicorn running on http://.*:\d+$"}


@pytest.fixture
def two(playbooks: Playbooks) -> Path:
    """Two hosts."""
    return playbooks.inventory({"h1": {}, "h2": {}})


def said(fabric: Fabric) -> str:
    """What rank 0 has printed so far."""
    return _nodes.read(fabric["h1"], _nodes.only(fabric["h1"], "/root/.muster/runs/main/*/rank-0/log"))


@pytest.mark.parametrize("proof", [LOG, PORT], ids=["log", "port"])
def test_the_launch_waits_for_the_service(
    playbooks: Playbooks, fabric: Fabric, two: Path, proof: dict[str, Any]
) -> None:
    """Only when rank 0's log matches, or its port listens, is the launch over; a formed ring is not enough."""
    playbooks.launch(program=SERVE, inventory=two, **proof).ok()
    assert "Uvicorn running" in said(fabric)
    assert 8765 in fabric["h1"].listening_ports()
    assert playbooks.launch(program=SERVE, inventory=two, **proof).ok().changed == {"h1": 0, "h2": 0}
    playbooks.teardown(inventory=two).ok()


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        ({**LOG, "mlx_ready_pattern": "never said"}, "its log matches 'never said'"),
        ({**PORT, "mlx_ready_port": 8766}, "it listens on port 8766"),
        ({**PORT, "mlx_ready_port": 22}, "it listens on port 22"),
    ],
    ids=["log", "port", "somebody else's port"],
)
def test_a_service_that_does_not_come(
    playbooks: Playbooks, fabric: Fabric, two: Path, proof: dict[str, Any], words: str
) -> None:
    """The deadline ends the launch; it says what was waited for, and what the rank printed last."""
    outcome = playbooks.launch(program=SERVE, inventory=two, mlx_ready_timeout=2, **proof)
    outcome.failed("Rank 0 should be up within mlx_ready_timeout (2 s)", words, "Uvicorn running")
    assert _nodes.left(fabric) == []


def test_a_program_that_is_no_mlx(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """`process`: every rank runs, and that is all; also for a command that is no Python."""
    playbooks.launch(mlx_command=["sleep", "600"], mlx_ready="process", inventory=two).ok()
    argvs = [["sleep", "600"]] * 2
    _nodes.eventually(lambda: [one.argv for host in fabric.hosts for one in _nodes.ranks(host)] == argvs, "two ranks")
    playbooks.teardown(inventory=two).ok()


def test_a_program_that_is_through(playbooks: Playbooks, two: Path) -> None:
    """A ring that summed and ended with 0 is no failed launch; status tells it; launched again, it runs again."""
    playbooks.launch(program=[ALL_SUM], inventory=two).ok()
    _nodes.eventually(
        lambda: not [pid for pids in _nodes.pids(playbooks.fabric).values() for pid in pids], "the ranks' end"
    )
    _nodes.eventually(lambda: not any(map(_nodes.supervisors, playbooks.fabric.hosts)), "the supervisors' end")
    status = playbooks.status(inventory=two).ok()
    assert [rank["state"] for rank in status.ranks] == ["exited 0"] * 2
    assert playbooks.launch(program=[ALL_SUM], inventory=two).ok().changed == {"h1": 1, "h2": 1}
    gone = playbooks.teardown(inventory=two).ok()
    assert {rank["was"] for receipt in gone.receipts.values() for rank in receipt["ranks"]} <= {"exited 0", "running"}
