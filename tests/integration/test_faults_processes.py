"""The fault matrix, ranks: held by the kernel, slow to release, with children that left, and killed behind our back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

MOUNT = "/mnt/frozen"
RECORDS = "/root/.muster/runs/main/*/rank-*/record.json"
NOTE = "/root/.muster/quarantine.json"


def launch(playbooks: Playbooks, inventory: Path, program: list[str], word: str, **variables: Any) -> Outcome:
    """Launch a program of ours that joins no ring, and wait until each rank has said the word."""
    command = [str(PROGRAMS / program[0]), *program[1:]]
    outcome = playbooks.launch(program=command, mlx_ready="process", inventory=inventory, **variables).ok()
    for rank in outcome.ranks:
        host, log = playbooks.fabric[rank["node"]], rank["log"]
        _nodes.eventually(lambda host=host, log=log: word in _nodes.read(host, log), f"{word!r} of {host}")
    return outcome


def signals(outcome: Outcome, node: str) -> list[str]:
    """The signals that the first rank of a node got."""
    return [name for name, _ in outcome.receipts[node]["ranks"][0]["signals"]]


def state(host: Host, pid: int) -> str:
    """What the kernel says of a process: D is uninterruptible; empty when it is gone."""
    with suppress(OSError):
        return _nodes.read(host, f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    return ""


# -- a rank in the kernel ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ice:
    """A file system of its own on one host, that can be frozen."""

    host: Host

    def freeze(self) -> None:
        """From now on whoever writes there sleeps, and no signal wakes it."""
        self.host.run(["fsfreeze", "-f", MOUNT])

    def thaw(self) -> None:
        """Let the writers go on."""
        self.host.run(["fsfreeze", "-u", MOUNT])


@pytest.fixture
def ice(whole_fabric: Fabric, playbooks: Playbooks, tmp_path: Path) -> Iterator[Ice]:
    """A loop-mounted ext4 on h2. The loop device is made by the machine; the host only gets its node, and mounts it."""
    host, image, device = whole_fabric["h2"], tmp_path / "image", ""
    with image.open("wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=30)
    try:
        attached = subprocess.run(
            ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, timeout=30, check=False
        )
        if attached.returncode:
            pytest.skip(f"this machine has no loop device: {attached.stderr.strip()}")
        device = attached.stdout.strip()
        number = device.removeprefix("/dev/loop")
        host.run(f"mknod /dev/frozen b 7 {number} && mkdir -p {MOUNT} && mount -t ext4 /dev/frozen {MOUNT}")
        yield Ice(host)
    finally:
        # The host may have been booted meanwhile: then the mount is gone, and only the loop device is left.
        host.run(["fsfreeze", "-u", MOUNT], check=False)
        for one in [*_nodes.ranks(host), *_nodes.supervisors(host)]:
            host.run(["kill", "-KILL", str(one.pid)], check=False)
        _nodes.eventually(lambda: not _nodes.ranks(host), "the writers on the thawed file system to end")
        host.run(f"umount {MOUNT}; rm -f /dev/frozen; rmdir {MOUNT}", check=False)
        if device:
            subprocess.run(["losetup", "--detach", device], check=False, timeout=30)


def held(playbooks: Playbooks, ice: Ice, two: Path) -> tuple[int, Outcome]:
    """Launch on two hosts, let the rank of h2 write to ice, and tear down: its pid, and what the teardown said."""
    path = f"{MOUNT}/checkpoint"
    hosts = playbooks.inventory({"h1": {}, "h2": {"mlx_env": {}}}, name="held")
    _nodes.inside(playbooks.fabric["h1"], MOUNT).mkdir(parents=True, exist_ok=True)
    pids = launch(playbooks, hosts, ["frozen.py", path], "writing").pids
    (pid,) = pids["h2"].values()
    ice.freeze()
    _nodes.eventually(lambda: state(ice.host, pid) == "D", "the rank of h2 to sleep in the kernel")
    torn = playbooks.teardown(inventory=two, mlx_grace=1, mlx_grace_max=1)
    assert state(ice.host, pid) == "D", "it is what this test is about"
    return pid, torn


@pytest.fixture
def two(playbooks: Playbooks) -> Path:
    """Two hosts, of which h2 is the one that gets into trouble."""
    return playbooks.inventory({"h1": {}, "h2": {}})


def test_a_rank_that_the_kernel_holds(playbooks: Playbooks, whole_fabric: Fabric, ice: Ice, two: Path) -> None:
    """Uninterruptible: never called gone, its record stays, the node takes no launch until a teardown proves it gone."""
    pid, torn = held(playbooks, ice, two)
    torn.failed("h2", f"{pid}", "held by the kernel", "reboot")
    assert {node: receipt["verdict"] for node, receipt in torn.receipts.items()} == {"h1": "clean", "h2": "dirty"}
    assert signals(torn, "h2") == ["SIGTERM", "SIGKILL"]
    assert torn.receipts["h2"]["ranks"][0]["stuck"] == [pid]
    assert str(pid) in torn.receipts["h2"]["quarantine"]
    assert torn.receipts["h1"]["quarantine"] == ""
    assert len(ice.host.files(RECORDS)) == 1
    assert ice.host.files(NOTE) == [NOTE]

    other = playbooks.launch(program=[str(PROGRAMS / "tidy.py")], mlx_ready="process", mlx_run="other", inventory=two)
    other.failed("h2", "quarantine", f"{pid}", "held by the kernel", "Reboot it")
    assert _nodes.pids(whole_fabric, "other") == {host.name: [] for host in whole_fabric.hosts}

    ice.thaw()
    _nodes.eventually(lambda: not state(ice.host, pid), "the rank to die of the SIGKILL it got long ago")
    again = playbooks.teardown(inventory=two).ok()
    assert again.receipts["h2"]["verdict"] == "clean"
    assert again.receipts["h2"]["quarantine"] == ""
    assert ice.host.files(NOTE) == []
    launch(playbooks, two, ["tidy.py"], "working", mlx_run="other")
    playbooks.teardown(inventory=two, mlx_run="other").ok()


def test_a_reboot_ends_a_quarantine(playbooks: Playbooks, whole_fabric: Fabric, ice: Ice, two: Path) -> None:
    """In another boot session the note is void by itself: the next launch starts, and no teardown is needed before."""
    held(playbooks, ice, two)[1].failed("held by the kernel")
    ice.thaw()  # or the host's process 1 could not end: the kernel waits for the last process
    assert ice.host.files(NOTE) == [NOTE]
    ice.host.boot()
    whole_fabric.controller.close_connections()
    launched = launch(playbooks, two, ["tidy.py"], "working", mlx_run="other")
    assert [rank["state"] for rank in launched.ranks] == ["running", "running"]
    playbooks.teardown(inventory=two, mlx_run="other").ok()
    torn = playbooks.teardown(inventory=two).ok()
    assert torn.receipts["h2"]["ranks"][0]["was"] == "dead" or "killed" in torn.receipts["h2"]["ranks"][0]["was"]
    assert torn.receipts["h2"]["ranks"][0]["signals"] == []
    assert torn.receipts["h2"]["quarantine"] == ""
    assert ice.host.files(NOTE) == []
