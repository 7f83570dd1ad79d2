"""Runs of different names on the same hosts have nothing to do with each other."""

from __future__ import annotations

import re

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import Playbooks

RUNS = {"red": 33000, "blue": 34000}


def test_two_runs_started_in_the_same_second(playbooks: Playbooks, fabric: Fabric) -> None:
    """Both come up, each with its own ranks; a teardown of one leaves the processes of the other as they are."""
    started = {run: playbooks.start("launch", mlx_run=run, mlx_starting_port=port) for run, port in RUNS.items()}
    launched = {run: one.finish().ok() for run, one in started.items()}
    for run, outcome in launched.items():
        assert [(rank["run"], rank["node"], rank["state"]) for rank in outcome.ranks] == [
            (run, host.name, "running") for host in fabric.hosts
        ]
        assert [rank["ports"] for rank in outcome.ranks] == [[RUNS[run] + rank] for rank in range(4)]
    before = {run: _nodes.pids(fabric, run) for run in RUNS}
    assert all(len(pids) == 1 for run in RUNS for pids in before[run].values())

    both = playbooks.status().ok()
    assert [(rank["run"], rank["rank"]) for rank in both.ranks] == [
        (run, rank) for run in sorted(RUNS) for rank in range(4)
    ]

    playbooks.teardown(mlx_run="red").ok()
    assert _nodes.pids(fabric, "red") == {host.name: [] for host in fabric.hosts}
    assert _nodes.pids(fabric, "blue") == before["blue"]
    assert {(rank["run"], rank["state"]) for rank in playbooks.status().ok().ranks} == {("blue", "running")}
    playbooks.teardown(mlx_run="blue").ok()


def test_a_second_run_on_the_same_ports_is_refused(playbooks: Playbooks, fabric: Fabric) -> None:
    """MLX binds with SO_REUSEPORT, so two rings on one port would mix up: a living rank's record keeps its port."""
    playbooks.launch(mlx_run="red").ok()
    before = _nodes.pids(fabric)
    outcome = playbooks.launch(mlx_run="blue").failed("port taken", "rank 0 of run red", "rank 3 of run red")
    assert f"{fabric['h3'].address}:32325 belongs to rank 2 of run red" in outcome.text
    assert _nodes.pids(fabric) == before
    playbooks.teardown(mlx_run="red").ok()


def test_two_launches_of_one_run_at_the_same_time(playbooks: Playbooks, fabric: Fabric) -> None:
    """At most one comes up, with four ranks of one instance; each other one says why, and leaves nothing of its own."""
    outcomes = [one.finish() for one in [playbooks.start("launch"), playbooks.start("launch")]]
    winners = [outcome for outcome in outcomes if outcome.rc == 0]
    for outcome in outcomes:
        if outcome.rc:
            # The one that fails first fences the run as it leaves, which may end the other one too.
            assert re.search("another launch|a teardown of run main passed meanwhile", outcome.text, re.IGNORECASE)
    print(f"{len(winners)} of 2 launches came up")
    assert len(winners) <= 1
    up = winners[0].pids if winners else {}
    assert _nodes.pids(fabric) == {host.name: list(up.get(host.name, {}).values()) for host in fabric.hosts}
    assert [rank["state"] for rank in playbooks.status().ok().ranks] == ["running"] * sum(map(len, up.values()))
    playbooks.teardown().ok()
