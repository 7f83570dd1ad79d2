"""The controller dies at any instant of a launch: one teardown.yml afterwards leaves nothing."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from itertools import batched
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Seen
from tests.integration import _nodes
from tests.integration._playbooks import Playbooks, Running

SEED = 20261130
POINTS = 30
RUNS: dict[str, dict[str, Any]] = {
    "red": {"mlx_starting_port": 33000},
    "blue": {"mlx_starting_port": 34000, "mlx_command": ["sleep", "600"], "mlx_ready": "process"},
}
"""Two runs, a ring of MLX and one that is up as soon as it is born, are launched and killed on the same hosts at the
same time: that uses both cores, and more can go wrong."""


def instants() -> list[tuple[float, bool]]:
    """Random shares of a launch, denser towards its end, where nodes change; and whether its workers die too."""
    chance = random.Random(SEED)
    shares = [(number + chance.random()) / POINTS for number in range(POINTS)]
    found = [(math.sqrt(share), number % 2 == 0) for number, share in enumerate(shares)]
    chance.shuffle(found)
    return found


def kill(launch: Running, after: float, workers: bool) -> str:
    """SIGKILL to ansible-playbook, alone or with its process group, so many seconds after its start; when, in words."""
    time.sleep(max(0, after - launch.seconds))  # a point in time is what is tested
    # It leads its group (start_new_session), and is not waited for yet: the number is its own until then.
    (os.killpg if workers else os.kill)(launch.process.pid, signal.SIGKILL)
    launch.process.communicate(timeout=10)
    return f"{after:.3f} s, {'with' if workers else 'without'} its workers"


def busy(fabric: Fabric) -> list[str]:
    """What still works for a launch that was killed: orphaned workers here, modules on the hosts."""
    found = [f"controller: {one.pid}" for one in fabric.controller.guests() if is_worker(one.pid)]
    return found + [
        f"{host.name}: {one.pid} {one.argv}" for host in fabric.hosts for one in host.processes() if is_module(one)
    ]


def is_worker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return False
    # An ssh that keeps a connection open for later ("ssh: ... [mux]") works for nobody.
    return bool(command) and not command.startswith(b"ssh: ")


def is_module(process: Seen) -> bool:
    words = process.argv
    return bool(words) and "python" in words[0] and not any(word.endswith("host_init.py") for word in words)


def launch_both(playbooks: Playbooks) -> dict[str, Running]:
    """Start both runs."""
    return {run: playbooks.start("launch", mlx_run=run, keep=False, **asked) for run, asked in RUNS.items()}


def tear_down_both(playbooks: Playbooks) -> None:
    """Both teardowns, at the same time, must succeed."""
    started = [playbooks.start("teardown", mlx_run=run, keep=False) for run in RUNS]
    for outcome in [one.finish() for one in started]:
        outcome.ok()


@pytest.mark.timeout(280)
def test_teardown_leaves_nothing_whenever_the_controller_died(playbooks: Playbooks, fabric: Fabric) -> None:
    """30 seeded instants of a measured launch, alone and with its workers; a late module starts nothing either."""
    for _ in "warm up", "measure":
        duration = {run: one.finish().ok().seconds for run, one in launch_both(playbooks).items()}
        tear_down_both(playbooks)
    print(f"seed {SEED}, seconds of a launch: {duration}")
    caught = 0
    for pair in batched(instants(), len(RUNS), strict=True):
        launches = launch_both(playbooks)
        plan = sorted((share * duration[run], run, workers) for run, (share, workers) in zip(RUNS, pair, strict=True))
        said = [f"{run}: {kill(launches[run], after, workers)}" for after, run, workers in plan]
        started = {run: sum(map(len, _nodes.pids(fabric, run).values())) for run in RUNS}
        caught += sum(map(bool, started.values()))
        print(f"killed after {', '.join(said)}; ranks that were up then: {started}")
        tear_down_both(playbooks)
        assert _nodes.left(fabric) == []
        # What was on its way when the controller died has nobody to stop it: the fence has to.
        _nodes.eventually(lambda: not busy(fabric), "the killed launch's own processes to end", 30)
        assert _nodes.left(fabric) == [], "a module that was on its way started something after the teardown"
        assert [path for host in fabric.hosts for path in _nodes.unexpected(host)] == []
        assert not any(host.listening_ports() - {22} for host in fabric.hosts)
    assert caught >= 8, f"only {caught} of {POINTS} launches had started a rank when they were killed"
