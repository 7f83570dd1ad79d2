"""The fault matrix, nodes: cut off or switched off in the middle of a teardown, and with no place to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

TIDY = [str(PROGRAMS / "tidy.py")]
DISK = "/mnt/small"
GIVEN_UP = 45.0
"""Seconds within which a teardown must have given a silent node up: 5 x 4 s of ansible.cfg, and what the rest takes."""


def said(fabric: Fabric, outcome: Outcome, word: str) -> bool:
    """Whether every rank of a launch has said the word."""
    return all(word in _nodes.read(fabric[rank["node"]], rank["log"]) for rank in outcome.ranks)


def test_cut_off_and_switched_off_in_the_middle_of_a_teardown(playbooks: Playbooks, whole_fabric: Fabric) -> None:
    """h3 loses its network and h4 its power while all ranks are ending: the others are done, these two are unknown.

    The play fails within a bounded time; when the nodes are back the second teardown finishes the job.
    """
    cut, off = whole_fabric["h3"], whole_fabric["h4"]
    program = [str(PROGRAMS / "releasing.py"), "40", "8", "0.3"]
    first = playbooks.launch(program=program, mlx_ready="process").ok()
    _nodes.eventually(lambda: said(whole_fabric, first, "loaded"), "every rank to wait for its end")
    whole_fabric.controller.close_connections()
    running = playbooks.start("teardown", mlx_grace=20)
    try:
        _nodes.eventually(lambda: said(whole_fabric, first, "releasing"), "every rank to have got its SIGTERM")
        assert all(_nodes.pids(whole_fabric).values()), "the teardown is in its middle"
    finally:
        cut.cut_network()
        off.destroy()
    torn = running.finish(120).failed("h3: unknown", "h4: unknown")
    print(f"the teardown ended after {torn.seconds:.1f} s")
    assert torn.seconds < GIVEN_UP
    assert {node: receipt["verdict"] for node, receipt in torn.receipts.items()} == {
        "h1": "clean",
        "h2": "clean",
        "h3": "unknown",
        "h4": "unknown",
    }
    for node in ("h1", "h2"):
        assert [name for name, _ in torn.receipts[node]["ranks"][0]["signals"]] == ["SIGTERM"]
        assert torn.receipts[node]["ranks"][0]["state"] == "exited 0"

    cut.restore_network()
    off.boot()
    whole_fabric.controller.close_connections()
    again = playbooks.teardown().ok()
    assert {receipt["verdict"] for receipt in again.receipts.values()} == {"clean"}
    assert [rank["was"] for rank in again.receipts["h4"]["ranks"]] == ["dead"], "its record survived on the disk"
    assert again.receipts["h4"]["ranks"][0]["signals"] == []
    assert _nodes.left(whole_fabric) == []


# -- no place to write -------------------------------------------------------------------------------------------------


@contextmanager
def disk(host: Host, megabytes: int) -> Iterator[str]:
    """A small file system on a host, and the state directory on it."""
    host.run(f"mkdir -p {DISK} && mount -t tmpfs -o size={megabytes}m,mode=755 tmpfs {DISK}")
    try:
        yield f"{DISK}/state"
    finally:
        host.run(f"umount -l {DISK}; rmdir {DISK}", check=False)


@pytest.fixture
def one(playbooks: Playbooks) -> Path:
    """One host."""
    return playbooks.inventory({"h2": {}})


def nothing_happened(outcome: Outcome, fabric: Fabric) -> None:
    """A launch that was refused has started nothing, and no program of ours broke."""
    assert "Traceback" not in outcome.text
    assert outcome.by_host("Start the ranks") == {}
    assert _nodes.left(fabric) == []


def nothing_broke(outcome: Outcome) -> None:
    """It failed in words, and not as a program does."""
    assert "Traceback" not in outcome.text
    assert "MODULE FAILURE" not in outcome.text


def test_a_disk_that_is_full_at_the_start(playbooks: Playbooks, fabric: Fabric, one: Path) -> None:
    """The launch says how much room there is and how much is needed, and starts nothing."""
    with disk(fabric["h2"], 8) as state:
        outcome = playbooks.launch(program=TIDY, mlx_ready="process", inventory=one, mlx_state_dir=state)
        nothing_happened(outcome.failed("h2", DISK, "MiB free", "needed"), fabric)
        assert fabric["h2"].files(f"{DISK}/*") == []


def test_a_disk_that_cannot_be_written_at_the_start(playbooks: Playbooks, fabric: Fabric, one: Path) -> None:
    """Read-only: the launch names the directory and the remedy, and starts nothing."""
    with disk(fabric["h2"], 100) as state:
        fabric["h2"].run(["mount", "-o", "remount,ro", DISK])
        outcome = playbooks.launch(program=TIDY, mlx_ready="process", inventory=one, mlx_state_dir=state)
        nothing_happened(outcome.failed("h2", state, "cannot be written", "mlx_state_dir"), fabric)


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_disk_that_fails_under_a_rank(playbooks: Playbooks, fabric: Fabric, one: Path, fault: str) -> None:
    """A teardown that cannot write stands the rank down all the same, and says what it could not write where.

    On a full disk there may be room again once the rank is gone, so that it may even be proven clean at once. Nothing
    is lost, and the next teardown proves it clean.
    """
    host = fabric["h2"]
    with disk(host, 100) as state:
        try:
            playbooks.launch(program=TIDY, mlx_ready="process", inventory=one, mlx_state_dir=state).ok()
            if fault == "full":
                host.run(f"cat /dev/zero > {DISK}/filler; true")
            else:  # over the old mount, where the rank's log stays open
                host.run(f"mount --bind {DISK} {DISK} && mount -o remount,bind,ro {DISK}")
            torn = playbooks.teardown(inventory=one, mlx_state_dir=state)
            alive, kept = _nodes.ranks(host), host.files(f"{state}/runs/main/*/rank-0/record.json")
        finally:
            host.run(f"rm -f {DISK}/filler" if fault == "full" else f"umount {DISK}", check=False)
            again = playbooks.teardown(inventory=one, mlx_state_dir=state)
            _nodes.sweep(fabric)
        print(f"{fault}: the first ended with {torn.rc}, rank alive: {bool(alive)}, record: {kept}")
        assert alive == []
        assert again.ok().receipts["h2"]["verdict"] == "clean"
        if fault == "read-only":
            assert kept
            torn.failed("h2", "Read-only", f"{DISK}/state")
        if torn.rc:
            nothing_broke(torn)


# -- no home -----------------------------------------------------------------------------------------------------------


@contextmanager
def homeless(host: Host) -> Iterator[None]:
    """The user mlx can log in, and its home directory is not there, as when a volume was not mounted."""
    config = _nodes.inside(host, "/etc/ssh/sshd_config")
    before = config.read_text()
    host.run("install -m 644 /home/mlx/.ssh/authorized_keys /etc/ssh/keys-of-mlx && mv /home/mlx /home/away")
    try:
        config.write_text("AuthorizedKeysFile /etc/ssh/keys-of-mlx .ssh/authorized_keys\n" + before)
        host.stop_sshd()
        host.start_sshd()
        yield
    finally:
        host.run("mv /home/away /home/mlx && rm /etc/ssh/keys-of-mlx", check=False)
        config.write_text(before)
        if 22 in host.listening_ports():
            host.stop_sshd()
        host.start_sshd()


def test_a_home_that_is_missing(playbooks: Playbooks, whole_fabric: Fabric) -> None:
    """A launch says that its state directory cannot be made, and starts nothing; a teardown of a rank that was started
    before says the same, never that there is none, and finishes when the home is back."""
    host = whole_fabric["h2"]
    asked = playbooks.inventory({"h2": {"ansible_user": "mlx"}})
    launched = playbooks.launch(program=TIDY, mlx_ready="process", inventory=asked).ok()
    before = _nodes.pids(whole_fabric)
    whole_fabric.controller.close_connections()
    with homeless(host):
        refused = playbooks.launch(program=TIDY, mlx_ready="process", inventory=asked, mlx_run="other")
        torn = playbooks.teardown(inventory=asked)
        during = _nodes.pids(whole_fabric)
    whole_fabric.controller.close_connections()
    again = playbooks.teardown(inventory=asked)
    _nodes.sweep(whole_fabric)
    refused.failed("h2", "/home/mlx/.muster", "mlx_state_dir")
    assert "Traceback" not in refused.text
    nothing_broke(torn.failed("h2", "/home/mlx/.muster", "mlx_state_dir"))
    assert during == before
    assert [rank["pid"] for rank in again.ok().receipts["h2"]["ranks"]] == list(launched.pids["h2"].values())
    assert again.receipts["h2"]["verdict"] == "clean"
