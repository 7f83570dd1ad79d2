"""A node that cannot be asked is never called clean, and keeps nobody from seeing, or standing down, the others."""

from __future__ import annotations

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import Playbooks


def test_status_and_teardown_without_one_node(playbooks: Playbooks, whole_fabric: Fabric) -> None:
    """Its row says unreachable, its receipt unknown, the play fails; when it is back, a second teardown is clean."""
    first = playbooks.launch().ok()
    host = whole_fabric["h3"]
    host.stop_sshd()
    whole_fabric.controller.close_connections()

    status = playbooks.status().failed("h3")
    assert {rank["node"]: rank["state"] for rank in status.ranks} == {
        "h1": "running",
        "h2": "running",
        "h4": "running",
        "h3": "unreachable",
    }
    assert status.out.count("ROLL CALL") == 1

    torn = playbooks.teardown().failed("h3: unknown")
    assert {node: receipt["verdict"] for node, receipt in torn.receipts.items()} == {
        "h1": "clean",
        "h2": "clean",
        "h3": "unknown",
        "h4": "clean",
    }
    assert torn.out.count("RECEIPTS") == 1
    running = _nodes.pids(whole_fabric)
    assert (running["h1"], running["h2"], running["h4"]) == ([], [], [])

    host.start_sshd()
    # Without its neighbours the last rank may have ended meanwhile, but its record is there until it is stood down.
    assert _nodes.only(host, "/root/.muster/runs/main/*/rank-2/record.json")
    again = playbooks.teardown().ok()
    assert again.changed == {"h1": 0, "h2": 0, "h3": 1, "h4": 0}
    assert [rank["pid"] for rank in again.receipts["h3"]["ranks"]] == list(first.pids["h3"].values())


def test_a_launch_with_a_node_that_cannot_be_reached(playbooks: Playbooks, whole_fabric: Fabric) -> None:
    """Nothing starts anywhere, and the node is named."""
    whole_fabric["h3"].stop_sshd()
    whole_fabric.controller.close_connections()
    outcome = playbooks.launch().failed("h3", "UNREACHABLE")
    assert outcome.by_host("Start the ranks") == {}
    assert not any(_nodes.state_dirs(host) for host in whole_fabric.hosts)
