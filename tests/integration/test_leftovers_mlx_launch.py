"""What real `mlx.launch` leaves behind: ranks when it is killed, and two files per rank always."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._stale import YOUNG

from tests.fabric._fabric import Fabric
from tests.integration import _mlx_launch, _nodes
from tests.integration._playbooks import ALL_SUM, PROGRAMS, Outcome, Playbooks

IDLE = [str(PROGRAMS / "idle.py")]
ALL_FOUR = ("h1", "h2", "h3", "h4")


@pytest.fixture(autouse=True)
def empty_temporary_directories(fabric: Fabric) -> Iterator[None]:
    """Nothing of mktemp is on any host before a test, nor after it."""
    assert [path for host in fabric.hosts for path in _mlx_launch.files(host)] == []
    yield
    left = [f"{host.name}: {path}" for host in fabric.hosts for path in _mlx_launch.files(host)]
    for host in fabric.hosts:
        host.run("rm -f /tmp/tmp.*")
    assert left == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_launcher_that_is_killed_leaves_ranks_and_files_that_go_on_request(
    playbooks: Playbooks, fabric: Fabric, tmp_path: Path, number: signal.Signals
) -> None:
    """4 of 4 ranks live on, and so do the ssh clients; all are found, and gone with their 8 files on request."""
    with _mlx_launch.running(fabric, IDLE, tmp_path / "out") as launcher:
        os.kill(launcher.pid, number)
        launcher.wait(10)
        assert len(_mlx_launch.clients(fabric)) == 4
        left = _mlx_launch.pids(fabric)
        assert [len(pids) for pids in left.values()] == [1] * 4
        files = {host.name: _mlx_launch.files(host) for host in fabric.hosts}
        assert [len(paths) for paths in files.values()] == [2] * 4

        reported = playbooks.teardown().ok()
        found = reported.by_host("Stand the ranks down")
        assert {name: [one["pid"] for one in found[name]["leftovers"]["foreign"]] for name in ALL_FOUR} == left
        shown = {one["node"]: one for one in foreign(reported)}
        assert {name: (one["launcher"], one["rank"], one["action"]) for name, one in shown.items()} == {
            name: ("gone", rank, "left") for rank, name in enumerate(ALL_FOUR)
        }
        assert all(one["memory"] > 10e6 and 0 < one["age"] < 60 for one in shown.values())
        assert reported.changed == dict.fromkeys(ALL_FOUR, 0)
        assert _mlx_launch.pids(fabric) == left

        predicted = playbooks.teardown("--check", "--diff", mlx_foreign_ranks="kill").ok()
        assert predicted.changed == dict.fromkeys(ALL_FOUR, 1)
        assert _mlx_launch.pids(fabric) == left

        gone = playbooks.teardown(mlx_foreign_ranks="kill").ok()
        assert _mlx_launch.pids(fabric) == {name: [] for name in ALL_FOUR}
        assert {name: receipt["leftovers"]["removed"] for name, receipt in gone.receipts.items()} == files
        for receipt in gone.receipts.values():
            (ended,) = receipt["leftovers"]["ended"]
            assert ([name for name, _second in ended["signals"]], ended["left"]) == (["SIGTERM"], [])
            assert ended["seconds"] < 5
        _nodes.eventually(lambda: not _mlx_launch.clients(fabric), "the ssh clients to end with their ranks")
    assert playbooks.teardown(mlx_foreign_ranks="kill").ok().changed == dict.fromkeys(ALL_FOUR, 0)


def test_a_rank_of_a_living_launcher_goes_by_pid_only(playbooks: Playbooks, fabric: Fabric, tmp_path: Path) -> None:
    """`kill` leaves all four alone, since mlx.launch lives on the controller; a pid that is named goes, no other."""
    with _mlx_launch.running(fabric, IDLE, tmp_path / "out") as launcher:
        before = _mlx_launch.pids(fabric)
        spared = playbooks.run("clean", mlx_foreign_ranks="kill").ok()
        assert {one["launcher"] for one in foreign(spared)} == {"alive"}
        assert spared.changed == dict.fromkeys(ALL_FOUR, 0)
        assert _mlx_launch.pids(fabric) == before
        assert [len(_mlx_launch.files(host)) for host in fabric.hosts] == [2] * 4

        os.kill(launcher.pid, signal.SIGSTOP)  # or it would end the other ranks itself, once it sees one end
        try:
            named = playbooks.run("clean", mlx_pids={"h3": before["h3"]}).ok()
            assert named.changed == {"h1": 0, "h2": 0, "h3": 1, "h4": 0}
            assert {one["node"]: one["action"] for one in foreign(named)} == {
                "h1": "left", "h2": "left", "h3": "ended", "h4": "left",
            }  # fmt: skip
            assert _mlx_launch.pids(fabric) == {**before, "h3": []}
            assert _mlx_launch.files(fabric["h3"]) == []

            sshd = int(_nodes.read(fabric["h1"], "/run/sshd.pid"))
            refused = playbooks.run("clean", mlx_pids={"h1": [sshd]}).failed(f"process {sshd} (", "no foreign rank")
            assert list(refused.by_host("Remove what is left over", "failed")) == ["h1"]
            assert 22 in fabric["h1"].listening_ports()
        finally:
            os.kill(launcher.pid, signal.SIGCONT)


def test_twenty_clean_runs_leave_files_that_are_found_and_removed(
    playbooks: Playbooks, fabric: Fabric, tmp_path: Path
) -> None:
    """Each leaves its pid file and its coordination file on each host; both go, and nothing else in /tmp changes.

    One runs real ranks on four hosts, the others run what ends at once on two, since the files come before the program.
    """
    kept = {"notes.txt": "mine", "tmp.abc": "mine", "tmp.0123456789.json": "[]", "hosts.json": "[]"}
    for host in fabric.hosts:
        for name, text in kept.items():
            _nodes.inside(host, f"/tmp/{name}").write_text(text)
    before = [_nodes.listing(host) for host in fabric.hosts]
    with (tmp_path / "out").open("w") as out:
        real = [_mlx_launch.command(fabric, ALL_SUM, port=40000)]
        (tmp_path / "hosts.json").write_text(json.dumps(json.loads(fabric.hostfile.read_text())[:2]))
        quick = [
            _mlx_launch.command(fabric, "true", python=False, port=port, hostfile=tmp_path / "hosts.json")
            for port in range(41000, 41190, 10)
        ]
        for first in range(0, 20, 4):
            batch = [
                fabric.popen(words, stdin=subprocess.PIPE, stdout=out, stderr=out)
                for words in [*real, *quick][first : first + 4]
            ]
            try:
                codes = [process.wait(60) for process in batch]
            finally:
                for process in batch:
                    process.kill()
                    process.communicate()
            assert codes == [0] * 4, (tmp_path / "out").read_text()
    made = {host.name: set(_mlx_launch.files(host)) - {f"/tmp/{name}" for name in kept} for host in fabric.hosts}
    assert [len(paths) for paths in made.values()] == [40, 40, 2, 2]

    time.sleep(YOUNG)  # until then the last coordination files might belong to ranks that are just starting
    outcome = playbooks.teardown().ok()
    assert {name: set(receipt["leftovers"]["removed"]) for name, receipt in outcome.receipts.items()} == made
    reasons = [one["reason"] for receipt in outcome.receipts.values() for one in receipt["leftovers"]["decisions"]]
    assert (
        reasons.count("no process uses it") == len([reason for reason in reasons if reason.endswith("is gone")]) == 42
    )
    assert [_files(listing) for listing in map(_nodes.listing, fabric.hosts)] == [_files(listing) for listing in before]
    assert playbooks.teardown().ok().changed == dict.fromkeys(ALL_FOUR, 0)
    for host in fabric.hosts:
        for name in kept:
            _nodes.inside(host, f"/tmp/{name}").unlink()


def foreign(outcome: Outcome) -> list[dict[str, Any]]:
    """The foreign ranks that the roll call showed."""
    (shown,) = outcome.by_host("Show ").values()
    facts: list[dict[str, Any]] = shown["foreign"]
    return facts


def _files(listing: dict[str, tuple[int, int, int]]) -> dict[str, tuple[int, int, int]]:
    return {path: info for path, info in listing.items() if path.startswith("/tmp/")}
