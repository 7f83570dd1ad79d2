"""A request that cannot be right is one clear error before any node is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import ALL_SUM, Outcome, Playbooks

FOUR: dict[str, dict[str, Any]] = {"h1": {}, "h2": {}, "h3": {}, "h4": {}}


@dataclass(frozen=True)
class Request:
    """A wrong request: variables of the launch, of the inventory's hosts, options; and the words that the error has."""

    words: tuple[str, ...]
    variables: dict[str, Any] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=lambda: FOUR)
    options: tuple[str, ...] = ()


PROGRAM = {"mlx_program": [ALL_SUM]}
WRONG = {
    "no program": Request(("mlx_program", "mlx_command", "neither is set"), {"program": None}),
    "an empty program": Request(("mlx_program", "mlx_command", "neither is set"), {"mlx_program": []}),
    "program and command": Request(
        ("mlx_program", "mlx_command", "both are set"), {**PROGRAM, "mlx_command": ["/bin/sleep", "9"]}
    ),
    "a program that is no list": Request(("mlx_program", "list"), {"mlx_program": {"path": "train.py"}}),
    "a run's name with a path in it": Request(("mlx_run", "../x", "Choose another mlx_run"), {"mlx_run": "../x"}),
    "an unknown host": Request(("mlx_hosts", "h9", "-i"), {"mlx_hosts": ["h1", "h9"]}),
    "an empty group": Request(("mlx is empty", "mlx_hosts"), hosts={}),
    "one address on two hosts": Request(
        ("198.18.0.9", "h1", "h2"), hosts={**FOUR, "h1": {"mlx_ips": ["198.18.0.9"]}, "h2": {"mlx_ips": ["198.18.0.9"]}}
    ),
    "fewer forks than hosts": Request(("4 hosts", "2 forks", "--forks 4"), options=("--forks", "2")),
    "an address that is not IPv4": Request(
        ("h2", "mlx_ips", "fe80::1", "IPv4"), hosts={**FOUR, "h2": {"mlx_ips": ["fe80::1"]}}
    ),
    "a host with no rank": Request(("h3", "mlx_slots", "0"), hosts={**FOUR, "h3": {"mlx_slots": 0}}),
    "a misspelt variable": Request(("mlx_graze", "mlx_grace"), {"mlx_graze": 5}),
    "a boolean in the environment": Request(("mlx_env", "DEBUG", "bool", "quotes"), {"mlx_env": {"DEBUG": True}}),
    "a log proof without a pattern": Request(("mlx_ready_pattern",), {"mlx_ready": "log"}),
    "a port proof without a port": Request(("mlx_ready_port",), {"mlx_ready": "port"}),
    "an unknown proof": Request(("mlx_ready", "telepathy", "log"), {"mlx_ready": "telepathy"}),
    "a file that is not there": Request(("mlx_files", "/no/such/file", "not there"), {"mlx_files": ["/no/such/file"]}),
    "a limit that leaves nothing": Request(
        ("--limit", "h9"), options=("--limit", "h9"), variables={"mlx_hosts": ["h1"]}
    ),
    "a limit that leaves other hosts": Request(
        ("--limit", "h4", "h1"), options=("--limit", "h4"), variables={"mlx_hosts": ["h1"]}
    ),
    "ports that run out": Request(("mlx_starting_port", "65534", "65537"), {"mlx_starting_port": 65534}),
    "a relative interpreter": Request(("mlx_python", "absolute"), {"mlx_python": "python3"}),
    "no such signal": Request(("mlx_stop_signals", "KILLALL"), {"mlx_stop_signals": ["KILLALL"]}),
    "a number that is none": Request(("mlx_ready_timeout", "float"), {"mlx_ready_timeout": "soon"}),
    "hosts that disagree about the run": Request(
        ("mlx_connections_per_ip", "h1", "h2"), hosts={**FOUR, "h2": {"mlx_connections_per_ip": 2}}
    ),
}


@pytest.fixture
def hosts_before(fabric: Fabric) -> list[tuple[Any, ...]]:
    """How the hosts are when no connection is kept open, so that whoever touches one has to log in."""
    fabric.controller.close_connections()
    return hosts_now(fabric)


def hosts_now(fabric: Fabric) -> list[tuple[Any, ...]]:
    """Per host every login that sshd accepted, and every file that a user could have written."""
    logins = [_nodes.read(host, "/var/log/sshd.log").count("Accepted publickey") for host in fabric.hosts]
    return [(host.name, count, _nodes.listing(host)) for host, count in zip(fabric.hosts, logins, strict=True)]


def assert_one_error(outcome: Outcome) -> None:
    """What a user sees is one error, in Muster's words or Ansible's, and no fault of a program."""
    assert outcome.text.count("[ERROR]") == 1, repr(outcome)
    assert "Traceback" not in outcome.text
    assert all(counts["unreachable"] == 0 and counts["changed"] == 0 for counts in outcome.recap.values())


@pytest.mark.parametrize("name", WRONG)
def test_refused_before_any_node_is_touched(
    playbooks: Playbooks, fabric: Fabric, hosts_before: list[tuple[Any, ...]], name: str
) -> None:
    """One error, that says what is wrong, where, and what would be right; nobody logs in, no file is written."""
    wrong = WRONG[name]
    outcome = playbooks.launch(*wrong.options, inventory=playbooks.inventory(wrong.hosts), **wrong.variables)
    outcome.failed(*wrong.words)
    assert_one_error(outcome)
    assert hosts_now(fabric) == hosts_before


@pytest.mark.parametrize("playbook", ["status", "teardown"])
@pytest.mark.parametrize(
    ("variables", "words"),
    [({"mlx_hosts": "h9"}, "h9"), ({"mlx_run": "../x"}, "mlx_run")],
    ids=["unknown host", "bad name"],
)
def test_the_other_playbooks_refuse_too(
    playbooks: Playbooks,
    fabric: Fabric,
    hosts_before: list[tuple[Any, ...]],
    playbook: str,
    variables: dict[str, str],
    words: str,
) -> None:
    """An unknown host and a bad name of a run: an error, and no node is asked."""
    outcome = playbooks.run(playbook, **variables).failed(words)
    assert_one_error(outcome)
    assert hosts_now(fabric) == hosts_before
