"""A rank, or its supervisor, that is killed behind Muster's back."""

from __future__ import annotations

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import IDLE, Playbooks


def test_status_says_which_rank_and_how_and_launch_starts_all_anew(playbooks: Playbooks, fabric: Fabric) -> None:
    """SIGKILL to rank 1: status names it; the next launch ends the three survivors and starts four new ranks."""
    first = playbooks.launch(program=IDLE).ok()
    victim = _nodes.ranks(fabric["h2"])[0].pid
    fabric["h2"].run(["kill", "-KILL", str(victim)])
    _nodes.eventually(
        lambda: not _nodes.supervisors(fabric["h2"]), "the supervisor to have written down how its rank ended"
    )

    status = playbooks.status().ok()
    assert [rank["state"] for rank in status.ranks] == ["running", "killed by SIGKILL", "running", "running"]
    assert "killed by SIGKILL" in next(line for line in status.out.splitlines() if line.startswith("main  1 "))
    assert _nodes.pids(fabric) == {
        node: [] if node == "h2" else list(ranks.values()) for node, ranks in first.pids.items()
    }

    second = playbooks.launch(program=IDLE).ok()
    assert all(second.changed.values())
    assert [rank["state"] for rank in second.ranks] == ["running"] * 4
    old = {(node, pid) for node, ranks in first.pids.items() for pid in ranks.values()}
    new = {(node, pid) for node, ranks in second.pids.items() for pid in ranks.values()}
    assert not old & new
    assert _nodes.pids(fabric) == {node: list(ranks.values()) for node, ranks in second.pids.items()}
    playbooks.teardown().ok()


def test_a_supervisor_is_small_and_its_rank_outlives_it(playbooks: Playbooks, fabric: Fabric) -> None:
    """Each has less than 12 MB resident; one that is killed leaves a rank that is still known and stood down."""
    first = playbooks.launch(program=IDLE).ok()
    for host in fabric.hosts:
        (supervisor,) = _nodes.supervisors(host)
        status = _nodes.read(host, f"/proc/{supervisor.pid}/status")
        resident = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
        print(f"{host.name}: the supervisor has {resident / 1e6:.1f} MB resident")
        assert resident < 12e6
    host = fabric["h3"]
    (supervisor,) = _nodes.supervisors(host)
    host.run(["kill", "-KILL", str(supervisor.pid)])
    _nodes.eventually(lambda: not _nodes.supervisors(host), "the supervisor to be gone")

    status = playbooks.status().ok()
    assert [rank["state"] for rank in status.ranks] == ["running"] * 4
    assert status.pids == first.pids
    again = playbooks.launch(program=IDLE).ok()
    assert again.changed == {host.name: 0 for host in fabric.hosts}
    receipt = playbooks.teardown().ok().receipts["h3"]
    assert receipt["verdict"] == "clean"
    assert [signal for signal, _ in receipt["ranks"][0]["signals"]] == ["SIGTERM"]


def test_after_power_loss_the_rank_is_dead_and_the_run_starts_anew(playbooks: Playbooks, whole_fabric: Fabric) -> None:
    """A node that was switched off and on has a record of another boot session: dead, whoever has that pid now."""
    two = playbooks.inventory({"h1": {}, "h4": {}})
    first = playbooks.launch(inventory=two).ok()
    whole_fabric["h4"].boot()
    whole_fabric.controller.close_connections()
    states = {rank["node"]: rank["state"] for rank in playbooks.status(inventory=two).ok().ranks}
    assert states["h4"] == "dead"
    second = playbooks.launch(inventory=two).ok()
    assert [rank["state"] for rank in second.ranks] == ["running"] * 2
    assert second.pids["h1"] != first.pids["h1"]
    playbooks.teardown(inventory=two).ok()
