"""The fault matrix, records: damaged, of another rank, of another boot session, or naming a stranger's pid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

TIDY = str(PROGRAMS / "tidy.py")
STATE = "/home/mlx/.muster"
MLX = 1501


@contextmanager
def innocent(host: Host, command: list[str]) -> Iterator[int]:
    """A living process of the user mlx, in a group of its own, that has nothing to do with Muster; its pid on h."""
    before = {one.pid for one in host.processes()}

    def stranger() -> int:
        fresh = [one.pid for one in host.processes() if one.argv == command and one.pid not in before]
        return fresh[0] if fresh else 0

    with host.popen(
        ["setsid", "--wait", *command], user="mlx", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        pid = 0
        try:
            pid = _nodes.eventually(stranger, f"a process {command} on {host}")
            yield pid
        finally:
            if pid in {one.pid for one in host.processes() if one.argv == command}:
                host.run(["kill", "-KILL", str(pid)], check=False)
            started.kill()


def alive(host: Host, pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    return any(one.pid == pid and one.state not in "ZX" for one in host.processes())


def start_of(host: Host, pid: int) -> str:
    """When a process was started, as a record has it."""
    return _nodes.read(host, f"/proc/{pid}/stat").rpartition(")")[2].split()[19]


def record_of(host: Host, rank: int) -> Path:
    """Where a rank's record is, as the machine can open it."""
    return _nodes.inside(host, _nodes.only(host, f"{STATE}/runs/main/*/rank-{rank}")) / "record.json"


def rewrite(path: Path, **changes: Any) -> None:
    """Put other values into a record; it stays a file of its owner, of mode 0600."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def launch(playbooks: Playbooks, inventory: Path) -> Outcome:
    """Launch tidy.py, and wait until each rank works."""
    outcome = playbooks.launch(program=[TIDY], mlx_ready="process", inventory=inventory).ok()
    for rank in outcome.ranks:
        host, log = playbooks.fabric[rank["node"]], rank["log"]
        _nodes.eventually(lambda host=host, log=log: "working" in _nodes.read(host, log), f"{host} to work")
    return outcome


@pytest.mark.parametrize("way", ["kill", "repair"])
def test_records_that_cannot_be_believed(playbooks: Playbooks, fabric: Fabric, way: str) -> None:
    """Deleted, truncated, another rank's, unreadable, a directory: nobody gets a signal, each is named, rc is not 0.

    The fake record names an innocent process, with its true start: it survives everything. Afterwards the ranks are
    ended on request, as foreign ones, or by their records once these are what they were.
    """
    user = {"ansible_user": "mlx"}
    four = playbooks.inventory({"h1": user, "h2": user, "h3": {**user, "mlx_slots": 2}, "h4": user})
    launched = launch(playbooks, four)
    before = _nodes.pids(fabric)
    owners = {0: "h1", 1: "h2", 2: "h3", 3: "h3", 4: "h4"}
    paths = {rank: record_of(fabric[node], rank) for rank, node in owners.items()}
    originals = {rank: path.read_bytes() for rank, path in paths.items()}
    with innocent(fabric["h3"], [sys.executable, "-c", "import time; time.sleep(600)"]) as stranger:
        paths[0].unlink()
        paths[1].write_bytes(originals[1][: len(originals[1]) // 2])
        paths[2].write_bytes(originals[4])
        rewrite(paths[2], pid=stranger, pgid=stranger, start=start_of(fabric["h3"], stranger))
        paths[3].chmod(0)
        paths[4].unlink()
        paths[4].mkdir()

        damaged = {rank: f"rank-{rank}/record.json" for rank in (1, 2, 3, 4)}
        torn = playbooks.teardown(inventory=four)
        torn.failed(*damaged.values(), "it is the record of main/", "Permission denied", "it is no regular file")
        torn.failed("nothing was signalled for it", "no record names it", "it was not touched")
        assert {node: receipt["verdict"] for node, receipt in torn.receipts.items()} == dict.fromkeys(before, "dirty")
        for node, pids in before.items():
            said = " ".join(torn.receipts[node]["problems"])
            assert [pid for pid in pids if f"process {pid} " not in said] == [], f"{node}: {said}"
        assert _nodes.pids(fabric) == before
        assert alive(fabric["h3"], stranger)

        if way == "kill":
            killed = playbooks.teardown(inventory=four, mlx_foreign_ranks="kill").failed(*damaged.values())
            assert killed.receipts["h1"]["verdict"] == "clean"
            assert _nodes.pids(fabric) == {node: [] for node in before}
            for node in ("h2", "h3", "h4"):  # a person has looked
                fabric[node].run(f"rm -rf {STATE}/runs/main/*/rank-*/record.json")
        else:
            paths[4].rmdir()
            paths[3].chmod(0o600)
            for rank, path in paths.items():
                path.write_bytes(originals[rank])
                path.chmod(0o600)
                os.chown(path, MLX, MLX)
        done = playbooks.teardown(inventory=four).ok()
        assert {receipt["verdict"] for receipt in done.receipts.values()} == {"clean"}
        if way == "repair":
            found = {rank["pid"]: rank["signals"][0][0] for one in done.receipts.values() for rank in one["ranks"]}
            assert found == {pid: "SIGTERM" for ranks in launched.pids.values() for pid in ranks.values()}
        assert alive(fabric["h3"], stranger)
        assert _nodes.left(fabric) == []


def test_the_roll_call_names_a_record_that_cannot_be_believed(playbooks: Playbooks, fabric: Fabric) -> None:
    """Its rank lives: that there is none would be a lie, so status.yml names the file and the reason, and fails."""
    one, host = playbooks.inventory({"h1": {"ansible_user": "mlx"}}), fabric["h1"]
    launch(playbooks, one)
    path = record_of(host, 0)
    original = path.read_bytes()
    try:
        path.write_bytes(original[:100])
        status = playbooks.status(inventory=one)
    finally:
        path.write_bytes(original)
        playbooks.teardown(inventory=one).ok()
    status.failed("h1", "rank-0/record.json")
    assert "no rank is recorded" not in status.text


def test_a_pid_that_is_a_strangers_now(playbooks: Playbooks, fabric: Fabric) -> None:
    """Same uid, same command line, own group: never signalled, and the rank's record is cleaned as a dead one's.

    On h1 and h2 the pid was reused (the record has the old start); on h3 and h4 the record is of an earlier boot, and
    everything but the boot id fits. The supervisor's pid is a stranger's too.
    """
    user = {"ansible_user": "mlx"}
    four = playbooks.inventory({name: user for name in ("h1", "h2", "h3", "h4")})
    launched = launch(playbooks, four)
    same = [rank["program"] for rank in launched.ranks]
    commands = {"h1": same[0], "h2": ["sleep", "600"], "h3": same[2], "h4": ["sleep", "600"]}
    with ExitStack() as stack:
        strangers: dict[str, tuple[int, int]] = {}
        for rank, (node, command) in enumerate(commands.items()):
            host = fabric[node]
            victims = [one.pid for one in [*_nodes.supervisors(host), *_nodes.ranks(host)]]
            host.run(["kill", "-KILL", *map(str, victims)])
            _nodes.eventually(lambda host=host: not _nodes.ranks(host), f"the rank of {node} to be gone")
            leader, watcher = (stack.enter_context(innocent(host, command)) for _ in range(2))
            strangers[node] = (leader, watcher)
            names: dict[str, Any] = {"pid": leader, "pgid": leader, "supervisor_pid": watcher}
            if node in ("h3", "h4"):
                names["start"] = start_of(host, leader)
                names["supervisor_start"] = start_of(host, watcher)
                names["boot"] = "11111111-2222-4333-8444-555555555555"
            rewrite(record_of(host, rank), **names)

        status = playbooks.status(inventory=four).ok()
        assert [rank["state"] for rank in status.ranks] == ["dead"] * 4
        torn = playbooks.teardown(inventory=four, mlx_grace=1, mlx_grace_max=1, mlx_foreign_ranks="kill").ok()
        for node, pids in strangers.items():
            receipt = torn.receipts[node]
            assert (receipt["verdict"], receipt["problems"]) == ("clean", [])
            assert [(one["pid"], one["was"], one["signals"]) for one in receipt["ranks"]] == [(pids[0], "dead", [])]
            assert [pid for pid in pids if not alive(fabric[node], pid)] == [], f"{node}: it was no rank"
        assert _nodes.left(fabric) == []


def test_a_rank_without_record_is_reported_again_and_again(playbooks: Playbooks, fabric: Fabric) -> None:
    """With `mlx_keep: 0` too: as long as a process of the run lives here, no teardown says that the node is clean."""
    one, host = playbooks.inventory({"h1": {"ansible_user": "mlx"}}), fabric["h1"]
    launch(playbooks, one)
    before = _nodes.pids(fabric)
    record_of(host, 0).unlink()
    outcomes = [playbooks.teardown(inventory=one, mlx_keep=0) for _ in range(2)]
    assert _nodes.pids(fabric) == before
    _nodes.sweep(fabric)
    for outcome in outcomes:
        outcome.failed(f"process {before['h1'][0]}", "no record names it")
