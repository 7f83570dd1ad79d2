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
        try:
            # The host may have been booted meanwhile: then the mount is gone, and only the loop device is left.
            host.run(["fsfreeze", "-u", MOUNT], check=False)
            for one in [*_nodes.ranks(host), *_nodes.supervisors(host)]:
                host.run(["kill", "-KILL", str(one.pid)], check=False)
            _nodes.eventually(lambda: not _nodes.ranks(host), "the writers on the thawed file system to end")
            host.run(f"umount {MOUNT}; rm -f /dev/frozen; rmdir {MOUNT}", check=False)
            whole_fabric["h1"].run(["rm", "-rf", MOUNT])
        finally:
            if device:
                subprocess.run(["losetup", "--detach", device], check=False, timeout=30)


def held(playbooks: Playbooks, ice: Ice, two: Path) -> tuple[int, Outcome]:
    """Launch on two hosts, let the rank of h2 write to ice, and tear down: its pid, and what the teardown said."""
    path = f"{MOUNT}/checkpoint"  # on h1 an ordinary folder
    playbooks.fabric["h1"].run(["mkdir", "-p", MOUNT])
    pids = launch(playbooks, two, ["frozen.py", path], "writing").pids
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
    """Uninterruptible: never called gone, its record stays, no launch until a teardown proves it gone."""
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


# -- a rank that takes its time, and a rank with children --------------------------------------------------------------


def test_memory_that_falls_slowly_is_waited_for(playbooks: Playbooks) -> None:
    """2 GB in ten steps over 5 s, mlx_grace 1.5: as long as memory falls no SIGKILL comes, and the rank exits 0."""
    one = playbooks.inventory({"h1": {}})
    megabytes = 2000 if available() > 4000 else 400
    print(f"the rank holds {megabytes} MB")
    launch(playbooks, one, ["releasing.py", str(megabytes), "10", "0.5"], "loaded")
    torn = playbooks.teardown(inventory=one, mlx_grace=1.5, mlx_grace_max=30).ok()
    assert signals(torn, "h1") == ["SIGTERM"]
    rank = torn.receipts["h1"]["ranks"][0]
    assert rank["state"] == "exited 0"
    assert 4 < rank["seconds"] < 15, "it took longer than the grace"
    assert torn.receipts["h1"]["verdict"] == "clean"


def available() -> int:
    """Megabytes of memory that this machine has to spare."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))


@pytest.mark.parametrize("bare", [False, True], ids=["rank alive", "rank killed before"])
def test_children_wherever_they_went(playbooks: Playbooks, fabric: Fabric, bare: bool) -> None:
    """In a new session, forked twice, deaf to SIGTERM: none is left, whether the rank led them to the end or not."""
    one, host = playbooks.inventory({"h1": {}}), fabric["h1"]
    launched = launch(playbooks, one, ["clan.py"], "forked")
    (leader,) = launched.pids["h1"].values()
    work = f"/root/.muster/runs/main/{launched.ranks[0]['instance']}/work"
    names = ("session", "double", "stubborn")
    _nodes.eventually(lambda: all(host.files(f"{work}/{name}") for name in names), "three children")
    children = {name: int(_nodes.read(host, f"{work}/{name}")) for name in names}
    assert {one.pid for one in _nodes.ranks(host)} == {leader, *children.values()}
    if bare:
        host.run(["kill", "-KILL", str(leader)])
        _nodes.eventually(lambda: not _nodes.supervisors(host), "the supervisor to write how its rank ended")
    torn = playbooks.teardown(inventory=one, mlx_grace=1, mlx_grace_max=1).ok()
    assert torn.receipts["h1"]["verdict"] == "clean"
    assert signals(torn, "h1") == ["SIGTERM", "SIGKILL"], "for the one that ignores the first"
    assert not any(state(host, pid) for pid in children.values())
    assert _nodes.left(fabric) == []


# -- killed behind Muster's back ---------------------------------------------------------------------------------------


def test_a_supervisor_that_was_killed(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """The rank it left is found by its record, ended, and its files go, the coordination file too."""
    first = playbooks.launch(inventory=two).ok()
    host = fabric["h2"]
    (supervisor,) = _nodes.supervisors(host)
    host.run(["kill", "-KILL", str(supervisor.pid)])
    _nodes.eventually(lambda: not _nodes.supervisors(host), "the supervisor to be gone")
    assert [one.pid for one in _nodes.ranks(host)] == list(first.pids["h2"].values())
    assert len(host.files("/root/.muster/runs/main/*/rank-1/hosts-*.json")) == 1
    assert [rank["state"] for rank in playbooks.status(inventory=two).ok().ranks] == ["running", "running"]

    torn = playbooks.teardown(inventory=two).ok()
    assert {receipt["verdict"] for receipt in torn.receipts.values()} == {"clean"}
    assert torn.receipts["h2"]["ranks"][0]["was"] == "running"
    assert signals(torn, "h2") == ["SIGTERM"]
    assert torn.receipts["h2"]["ranks"][0]["state"] == "dead", "it ended, and nobody was there to see how"
    assert _nodes.left(fabric) == []


def test_a_rank_that_was_killed(playbooks: Playbooks, fabric: Fabric, two: Path) -> None:
    """Its supervisor, paused while it happens, writes down the signal: status and receipt tell it, the files go."""
    first = launch(playbooks, two, ["tidy.py"], "working")
    host = fabric["h2"]
    (pid,) = first.pids["h2"].values()
    (supervisor,) = _nodes.supervisors(host)
    host.run(["kill", "-STOP", str(supervisor.pid)])
    try:
        host.run(["kill", "-KILL", str(pid)])
        _nodes.eventually(lambda: state(host, pid) == "Z", "the rank to be dead, and not waited for")
        assert host.files("/root/.muster/runs/main/*/rank-1/exit.json") == []
        early = playbooks.status(inventory=two).ok()
        assert [rank["state"] for rank in early.ranks] == ["running", "dead"], "how, nobody has said yet"
    finally:
        host.run(["kill", "-CONT", str(supervisor.pid)])
    _nodes.eventually(lambda: not _nodes.supervisors(host), "the supervisor to write how its rank ended, and to end")
    status = playbooks.status(inventory=two).ok()
    assert [rank["state"] for rank in status.ranks] == ["running", "killed by SIGKILL"]

    torn = playbooks.teardown(inventory=two).ok()
    assert signals(torn, "h2") == []
    assert (torn.receipts["h2"]["ranks"][0]["was"], torn.receipts["h2"]["verdict"]) == ("killed by SIGKILL", "clean")
    assert signals(torn, "h1") == ["SIGTERM"]
    assert _nodes.left(fabric) == []
