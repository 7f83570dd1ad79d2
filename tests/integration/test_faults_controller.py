"""The fault matrix, controllers: one that dies at any instant of a teardown, and two that work on the same hosts."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import batched
from pathlib import Path
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import IDLE, PROGRAMS, Outcome, Playbooks, Running

SEED = 20261130
POINTS = 20
PAIRS = 5
SLOW = [str(PROGRAMS / "releasing.py"), "8", "4", "0.1"]
"""Takes 0.4 s to end, so that more of the points are in the middle of the nodes' work."""
HOSTS = {"red": ("h1", "h2"), "blue": ("h3", "h4")}
"""Two runs are torn down and killed at the same time, so that both cores are used."""


def instants() -> list[tuple[float, bool]]:
    """Random shares of a teardown, denser towards its end, where nodes change; and whether its workers die too."""
    chance = random.Random(SEED)
    shares = [(number + chance.random()) / POINTS for number in range(POINTS)]
    found = [(math.sqrt(share), number % 2 == 0) for number, share in enumerate(shares)]
    chance.shuffle(found)
    return found


def kill(teardown: Running, after: float, workers: bool) -> bool:
    """SIGKILL to ansible-playbook, alone or with its group, so many seconds after its start; False if it was over."""
    time.sleep(max(0, after - teardown.seconds))  # a point in time is what is tested
    # It leads its group (start_new_session), and is not waited for yet: the number is its own until then.
    running = teardown.process.poll() is None
    if running:
        (os.killpg if workers else os.kill)(teardown.process.pid, signal.SIGKILL)
    teardown.process.communicate(timeout=60)
    return running


def launch_all(playbooks: Playbooks, inventories: dict[str, Path]) -> dict[str, Outcome]:
    """Launch both runs, and wait until each rank can be asked to end."""
    started = {
        run: playbooks.start("launch", inventory=path, mlx_run=run, program=SLOW, mlx_ready="process")
        for run, path in inventories.items()
    }
    launched = {run: one.finish().ok() for run, one in started.items()}
    for outcome in launched.values():
        for rank in outcome.ranks:
            host, log = playbooks.fabric[rank["node"]], rank["log"]
            _nodes.eventually(lambda host=host, log=log: "loaded" in _nodes.read(host, log), f"{host} to be up")
    return launched


def assert_honest(receipt: dict[str, Any], pid: int) -> None:
    """It is about this rank, and says what can only be true: who was running got SIGTERM, who was not got nothing."""
    assert receipt["verdict"] == "clean"
    for rank in receipt["ranks"]:
        assert (rank["pid"], rank["left"], rank["stuck"]) == (pid, [], [])
        assert [name for name, _ in rank["signals"]] == (["SIGTERM"] if rank["was"] == "running" else [])
        assert rank["state"] == "exited 0", "every rank here frees its memory and then ends by itself"


@pytest.mark.timeout(280)
def test_a_controller_that_dies_in_a_teardown(playbooks: Playbooks, fabric: Fabric) -> None:
    """SIGKILL at 20 seeded points: the second teardown is 0, nothing is left, and every receipt tells the truth."""
    inventories = {run: playbooks.inventory({name: {} for name in hosts}, run) for run, hosts in HOSTS.items()}
    duration = dict.fromkeys(HOSTS, 0.0)
    for _ in "warm up", "measure":
        launch_all(playbooks, inventories)
        started = {run: playbooks.start("teardown", inventory=path, mlx_run=run) for run, path in inventories.items()}
        duration = {run: one.finish().ok().seconds for run, one in started.items()}
    print(f"seed {SEED}, seconds of a teardown: {duration}")
    middle, hit = 0, 0
    for pair in batched(instants(), len(HOSTS), strict=True):
        launched = launch_all(playbooks, inventories)
        first = {run: playbooks.start("teardown", inventory=path, mlx_run=run) for run, path in inventories.items()}
        plan = sorted((share * duration[run], run, workers) for run, (share, workers) in zip(HOSTS, pair, strict=True))
        for after, run, workers in plan:
            hit += kill(first[run], after, workers)
            alive = sum(map(len, _nodes.pids(fabric, run).values()))
            asked = sum("releasing" in _nodes.read(fabric[one["node"]], one["log"]) for one in launched[run].ranks)
            middle += bool(alive and asked)
            print(f"{run}: killed after {after:.3f} s, ranks alive {alive}, asked to end {asked}")
        again = {run: playbooks.start("teardown", inventory=path, mlx_run=run) for run, path in inventories.items()}
        for run, outcome in {run: one.finish().ok() for run, one in again.items()}.items():
            for node, ranks in launched[run].pids.items():
                (pid,) = ranks.values()
                assert_honest(outcome.receipts[node], pid)
                kept = f"/root/.muster/runs/{run}/{launched[run].ranks[0]['instance']}/receipt.json"
                written = json.loads(_nodes.read(fabric[node], kept))
                assert [rank["pid"] for rank in written["ranks"]] == [pid], "whoever stood it down left a receipt"
                assert_honest(written, pid)
        assert _nodes.left(fabric) == []
        assert [path for host in fabric.hosts for path in _nodes.unexpected(host)] == []
    print(f"{hit} of {POINTS} teardowns were killed, {middle} of them while a rank was ending")
    assert hit >= POINTS // 2
    assert middle


# -- two runs ----------------------------------------------------------------------------------------------------------


def pairs(playbooks: Playbooks, fabric: Fabric, inventory: Path, run: str, port: int) -> int:
    """Launch and tear down, again and again; how many of its coordination files were looked at."""
    looked = 0
    for _ in range(PAIRS):
        launched = playbooks.launch(inventory=inventory, mlx_run=run, mlx_starting_port=port, program=IDLE).ok()
        assert {rank["run"] for rank in launched.ranks} == {run}
        ports = {f"{fabric[name].address}:{port + rank}" for rank, name in enumerate(("h1", "h2"))}
        for node, own in launched.pids.items():
            (rank,) = _nodes.ranks(fabric[node], run)
            assert [rank.pid] == list(own.values())
            path = rank.environ["MLX_HOSTFILE"]
            assert path.startswith(f"/root/.muster/runs/{run}/{launched.ranks[0]['instance']}/")
            assert {words for row in json.loads(_nodes.read(fabric[node], path)) for words in row} == ports
            looked += 1
        torn = playbooks.teardown(inventory=inventory, mlx_run=run).ok()
        for node, own in launched.pids.items():
            receipt = torn.receipts[node]
            assert (receipt["run"], receipt["verdict"]) == (run, "clean")
            assert [(one["pid"], one["was"]) for one in receipt["ranks"]] == [(pid, "running") for pid in own.values()]
            foreign = [path for path in receipt["files_removed"] + receipt["files_left"] if f"/runs/{run}/" not in path]
            assert foreign == [], "what belongs to the other run"
        assert _nodes.pids(fabric, run) == {host.name: [] for host in fabric.hosts}
    return looked


def test_two_runs_that_come_and_go_on_the_same_hosts(playbooks: Playbooks, fabric: Fabric) -> None:
    """Five pairs each, at the same time: each has its own ranks, ports and files, sees no other, and ends clean."""
    two = playbooks.inventory({"h1": {}, "h2": {}})
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(pairs, playbooks, fabric, two, run, port) for run, port in {"red": 33000, "blue": 34000}.items()
        ]
        assert [one.result() for one in both] == [PAIRS * 2] * 2
    assert _nodes.left(fabric) == []
