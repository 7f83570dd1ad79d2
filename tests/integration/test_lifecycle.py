"""Launch, look, launch again, tear down, tear down again: what each leaves on four hosts, and what it reports."""

from __future__ import annotations

import re
from typing import Any

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import ALL_SUM, CHECKOUT, Playbooks

PORTS = {32323, 32324, 32325, 32326}
ALL_FOUR = {"h1": 0, "h2": 0, "h3": 0, "h4": 0}


def sums(fabric: Fabric, run: str = "main") -> dict[str, str]:
    """Host → the last line of each rank's own log."""
    lines = {}
    for host in fabric.hosts:
        for path in host.files(f"/root/.muster/runs/{run}/*/rank-*/log"):
            lines[f"{host.name}/{path.split('/')[-2]}"] = (_nodes.read(host, path).splitlines() or [""])[-1]
    return lines


def all_four_summed(fabric: Fabric) -> bool:
    wanted = {
        f"h{rank + 1}/rank-{rank}": f"rank {rank} of 4: all_sum(ones) = [4.0, 4.0, 4.0, 4.0]" for rank in range(4)
    }
    return sums(fabric) == wanted


def test_check_mode_tells_what_would_start_and_writes_nothing(playbooks: Playbooks, fabric: Fabric) -> None:
    """`--check --diff` shows each rank's program and address; no file is made, changed or removed, no process stays."""
    before = [_nodes.listing(host) for host in fabric.hosts]
    outcome = playbooks.launch("--check", "--diff").ok()
    for rank, host in enumerate(fabric.hosts):
        shown = outcome.by_host("Start the ranks")[host.name]["diff"]["after"][f"rank {rank}"]
        assert shown["program"][1:] == [ALL_SUM, "--forever"]
        assert shown["addresses"] == [f"{host.address}:{32323 + rank}"]
        assert f'"{host.address}:{32323 + rank}"' in outcome.out
    assert [rank["state"] for rank in outcome.ranks] == ["would start"] * 4
    assert outcome.out.count("--- before") == 4
    assert f'"{ALL_SUM}"' in outcome.out
    assert outcome.changed == dict.fromkeys(ALL_FOUR, 1)
    assert [_nodes.listing(host) for host in fabric.hosts] == before
    assert not any(_nodes.state_dirs(host) for host in fabric.hosts)


def test_launch_again_teardown_again(playbooks: Playbooks, fabric: Fabric) -> None:
    """Four ranks sum to 4; a second launch and a second teardown change nothing; nothing of the run stays."""
    first = playbooks.launch().ok()
    assert first.changed == dict.fromkeys(ALL_FOUR, 1)
    assert [(rank["node"], rank["rank"], rank["state"]) for rank in first.ranks] == [
        (f"h{rank + 1}", rank, "running") for rank in range(4)
    ]
    _nodes.eventually(lambda: all_four_summed(fabric), "all_sum == 4 in the log of every rank")

    running = _nodes.pids(fabric)
    assert running == {host: list(ranks.values()) for host, ranks in first.pids.items()}

    again = playbooks.launch().ok()
    assert again.changed == ALL_FOUR
    assert again.pids == first.pids
    assert _nodes.pids(fabric) == running

    looked_at = playbooks.launch("--check", "--diff").ok()
    assert looked_at.changed == ALL_FOUR

    predicted = playbooks.teardown("--check").ok()
    assert predicted.changed == dict.fromkeys(ALL_FOUR, 1)
    assert _nodes.pids(fabric) == running

    gone = playbooks.teardown().ok()
    assert gone.changed == dict.fromkeys(ALL_FOUR, 1)
    assert {node: receipt["verdict"] for node, receipt in gone.receipts.items()} == dict.fromkeys(ALL_FOUR, "clean")
    assert _nodes.left(fabric) == []
    for host in fabric.hosts:
        assert _nodes.unexpected(host) == []
        assert not host.listening_ports() & PORTS
        kept = {
            re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{8}", "<instance>", path)
            for path in host.files("/root/.muster/runs/main/**/*")
        }
        rank = int(host.name[1:]) - 1
        top = "/root/.muster/runs/main/<instance>"
        assert kept == {
            top,
            f"{top}/receipt.json",
            f"{top}/rank-{rank}",
            f"{top}/rank-{rank}/exit.json",
            f"{top}/rank-{rank}/log",
        }

    assert playbooks.teardown().ok().changed == ALL_FOUR


def test_two_ranks_on_each_of_two_hosts(playbooks: Playbooks, fabric: Fabric) -> None:
    """`mlx_slots: 2`: four ranks, two per host, in the inventory's order, each with its port; then from playbooks/."""
    inventory = playbooks.inventory({"h3": {"mlx_slots": 2}, "h1": {"mlx_slots": 2}})
    outcome = playbooks.launch(inventory=inventory).ok()
    assert [(rank["rank"], rank["node"], rank["ports"]) for rank in outcome.ranks] == [
        (0, "h3", [32323]),
        (1, "h3", [32324]),
        (2, "h1", [32325]),
        (3, "h1", [32326]),
    ]
    wanted = {
        f"{'h3' if rank < 2 else 'h1'}/rank-{rank}": f"rank {rank} of 4: all_sum(ones) = [4.0, 4.0, 4.0, 4.0]"
        for rank in range(4)
    }
    _nodes.eventually(lambda: sums(fabric) == wanted, "all_sum == 4 in the log of every rank")
    assert {name: len(found) for name, found in _nodes.pids(fabric).items()} == {"h1": 2, "h2": 0, "h3": 2, "h4": 0}
    there: dict[str, Any] = {"inventory": inventory, "cwd": CHECKOUT / "playbooks"}
    assert playbooks.run("launch.yml", **there).ok().changed == {"h3": 0, "h1": 0}
    torn = playbooks.run("teardown.yml", mlx_receipts=str(playbooks.folder / "receipts"), **there).ok()
    assert torn.changed == {"h3": 1, "h1": 1}
