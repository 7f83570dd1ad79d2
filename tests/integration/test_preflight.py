"""What a launch looks at on every node before anything starts, and how it says what is in the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes, _other_mlx
from tests.integration._playbooks import FOREVER, Outcome, Playbooks

Put = Callable[[Host, str, str, int], str]

LISTEN = """
import socket, sys
with socket.socket() as taken:
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((sys.argv[1], int(sys.argv[2])))
    taken.listen()
    print("listening", flush=True)
    sys.stdin.read()
"""


@contextmanager
def listener(host: Host, address: str, port: int) -> Iterator[int]:
    """A process of the host that listens there; its pid, as the host sees it."""
    argv = [sys.executable, "-c", LISTEN, address, str(port)]
    with host.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == "listening\n"
        try:
            yield next(one.pid for one in host.processes() if one.argv == argv)
        finally:
            process.kill()


def assert_not_started(outcome: Outcome, fabric: Fabric, culprit: str) -> None:
    """Only the culprit is called not ready, and no host has a state directory now."""
    assert [one.host for one in outcome.results if one.status == "failed"] == [culprit]
    assert not any(_nodes.state_dirs(host) for host in fabric.hosts)


@pytest.mark.parametrize("address", ["own", "0.0.0.0"])
def test_a_port_that_another_process_holds(playbooks: Playbooks, fabric: Fabric, address: str) -> None:
    """The address, the pid and the command of who holds it are named."""
    host = fabric["h2"]
    with listener(host, host.address if address == "own" else address, 32324) as pid:
        outcome = playbooks.launch().failed(f"port taken: {host.address}:32324", f"process {pid} (python")
    assert_not_started(outcome, fabric, "h2")


def test_an_address_of_another_machine(playbooks: Playbooks, fabric: Fabric) -> None:
    """mlx_ips that no interface of the node has."""
    inventory = playbooks.inventory({"h1": {}, "h2": {"mlx_ips": ["198.18.250.250"]}})
    outcome = playbooks.launch(inventory=inventory).failed("mlx_ips has 198.18.250.250", "not configured on this node")
    assert_not_started(outcome, fabric, "h2")


def test_an_interpreter_without_mlx(playbooks: Playbooks, fabric: Fabric) -> None:
    """The interpreter and what it says are named, and what to do."""
    bare = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    inventory = playbooks.inventory({"h1": {}, "h2": {"mlx_python": bare}})
    outcome = playbooks.launch(inventory=inventory)
    outcome.failed(f"{bare} cannot import mlx", "No module named 'mlx'", "install mlx for it, or set mlx_python")
    assert_not_started(outcome, fabric, "h2")


def test_another_version_of_mlx_on_one_node(playbooks: Playbooks, fabric: Fabric, put: Put) -> None:
    """Every node's version is named; both are real."""
    try:
        folder = _other_mlx.older_mlx()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        pytest.skip(str(error))
    path = put(fabric["h3"], "/usr/local/bin/other-python", _other_mlx.interpreter(folder), 0o755)
    hosts = {"h1": {}, "h2": {}, "h3": {"mlx_python": path}}
    outcome = playbooks.launch(inventory=playbooks.inventory(hosts))
    versions = {host: seen["mlx_version"] for host, seen in outcome.by_host("Look at every node").items()}
    assert versions["h1"] == versions["h2"] != versions["h3"]
    outcome.failed(
        "same version of mlx", *(f"{host} has {version}" for host, version in versions.items()), "mlx_python"
    )
    assert not any(_nodes.state_dirs(host) for host in fabric.hosts)


def test_what_is_not_there(playbooks: Playbooks, fabric: Fabric) -> None:
    """Working directory, program and interpreter, each missing on one node: all are named in one go, node by node."""
    hosts = {
        "h1": {"mlx_cwd": "/no/such/place"},
        "h2": {"mlx_program": ["/no/such/train.py"]},
        "h3": {"mlx_python": "/no/such/python3"},
        "h4": {"mlx_cwd": "/no/such/place", "mlx_program": ["/no/such/train.py"]},
    }
    inventory = playbooks.inventory(hosts, mlx_program=FOREVER)
    outcome = playbooks.launch(inventory=inventory, program=None).failed()
    said = {one.host: one.values["msg"] for one in outcome.results if one.status == "failed"}
    assert "mlx_cwd /no/such/place is no directory on this node" in said["h1"]
    assert "mlx_program /no/such/train.py is not there on this node" in said["h2"]
    assert "mlx_python /no/such/python3 is not there or not executable on this node" in said["h3"]
    assert "/no/such/place" in said["h4"]
    assert "/no/such/train.py" in said["h4"]
    assert not any(_nodes.state_dirs(host) for host in fabric.hosts)


def test_a_state_directory_that_cannot_be_written(playbooks: Playbooks, fabric: Fabric) -> None:
    """A user without the right to it is told which folder refuses, and which variable names another."""
    inventory = playbooks.inventory({"h1": {}, "h2": {}}, ansible_user="mlx")
    outcome = playbooks.launch(inventory=inventory, mlx_state_dir="/root/muster")
    outcome.failed("state directory /root/muster cannot be written", "/root is not writable", "mlx_state_dir")
    assert not any(host.files("/root/muster") for host in fabric.hosts)


def test_a_relative_program_that_nobody_brings(playbooks: Playbooks, fabric: Fabric) -> None:
    """`mlx_program: [train.py]` without mlx_files: the work folder would be empty, and the three ways out are named."""
    outcome = playbooks.launch(program=["train.py"], inventory=playbooks.inventory({"h1": {}, "h2": {}}))
    outcome.failed("train.py", "mlx_files", "absolute path", "mlx_cwd")
    assert not any(_nodes.state_dirs(host) for host in fabric.hosts)
