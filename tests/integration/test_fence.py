"""A teardown that passes while a launch is on its way: nothing of that launch may start afterwards, nor stay."""

from __future__ import annotations

import sys
import time

import pytest

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Playbooks

LOCK = "/root/.muster/locks/launch-main.lock"
HOLD = f"""
import fcntl, os, sys
os.makedirs({LOCK.rpartition("/")[0]!r}, mode=0o700, exist_ok=True)
os.chmod("/root/.muster", 0o700)
file = open({LOCK!r}, "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_paused_module_starts_nothing_after_a_teardown(playbooks: Playbooks, fabric: Fabric) -> None:
    """The module on h3 is stopped before it starts anything, a teardown passes: when it goes on, it refuses."""
    host = fabric["h3"]
    with host.popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1) as holder:
        assert holder.stdin and holder.stdout
        try:
            assert holder.stdout.readline() == "held\n"
            launch = playbooks.start("launch")
            own = set(_nodes.holders(host, LOCK))
            (module,) = _nodes.eventually(
                lambda: set(_nodes.holders(host, LOCK)) - own, "the module at the launch lock of h3"
            )
            host.run(["kill", "-STOP", str(module)])
            _nodes.eventually(lambda: "T" in state(fabric, module), "the module to be stopped")
        finally:
            holder.kill()
    try:
        assert _nodes.ranks(host) == []
        torn = playbooks.teardown().ok()
        assert {receipt["verdict"] for receipt in torn.receipts.values()} == {"clean"}
    finally:
        host.run(["kill", "-CONT", str(module)])
    outcome = launch.finish(60).failed("teardown", "passed", "nothing was started")
    print(f"the launch ended after {outcome.seconds:.2f} s")
    assert outcome.by_host("Start the ranks", "failed")["h3"]["fenced"] is True
    assert _nodes.left(fabric) == []
    assert playbooks.launch().ok().changed == {one.name: 1 for one in fabric.hosts}, "a later launch is free to start"
    playbooks.teardown().ok()


def state(fabric: Fabric, pid: int) -> str:
    """The state of a process of h3, as the kernel says."""
    return _nodes.read(fabric["h3"], f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


@pytest.mark.parametrize("keep", [10, 0])
def test_a_teardown_ends_a_launch_that_waits(playbooks: Playbooks, fabric: Fabric, keep: int) -> None:
    """Both stand the same ranks down at the same time: the teardown succeeds, the launch fails and names it."""
    launch = playbooks.start("launch", program=[str(PROGRAMS / "absent.py"), "1"], mlx_ready_timeout=60, mlx_keep=keep)
    _nodes.eventually(lambda: all(_nodes.pids(fabric).values()), "a rank on every host")
    began = time.monotonic()
    torn = playbooks.teardown(mlx_keep=keep).ok()
    assert {receipt["verdict"] for receipt in torn.receipts.values()} == {"clean"}
    launch.finish(20).failed("a teardown of run main passed meanwhile")
    assert time.monotonic() - began < 15
    assert _nodes.left(fabric) == []
