"""Whoever Ansible logs in as, with whatever Python, pipelined or not: launch, status and teardown are the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fabric._accounts import HOMES
from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import Playbooks

WELCOME = "*** welcome"


def python_of(version: str) -> str:
    """An interpreter of that version that really runs and that hosts have too; empty when there is none."""
    if sys.version.startswith(version + "."):
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [*sorted(root.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)]
    candidates += [Path(folder, f"python{version}") for folder in ("/usr/local/bin", "/usr/bin")]
    return next((str(path) for path in candidates if os.access(path, os.X_OK)), "")


def newest() -> str:
    """The newest interpreter that there is."""
    return next(python for minor in range(20, 8, -1) if (python := python_of(f"3.{minor}")))


@pytest.mark.parametrize(
    ("user", "python", "pipelining"),
    [
        ("root", "3.9", True),
        ("mlx", "newest", False),
        ("noisy", "3.9", False),
        ("noisy", "newest", True),
    ],
)
def test_launch_look_and_tear_down(
    playbooks: Playbooks, fabric: Fabric, user: str, python: str, pipelining: bool
) -> None:
    """The ranks belong to that user and sum; what a login prints does no harm and is mentioned; nothing is left."""
    interpreter = newest() if python == "newest" else python_of(python)
    if not interpreter:
        pytest.skip(f"found no Python {python} in pyenv's versions, /usr/local/bin or /usr/bin")
    inventory = playbooks.inventory({"h1": {}, "h2": {}}, ansible_user=user, ansible_python_interpreter=interpreter)
    env = {"ANSIBLE_PIPELINING": str(pipelining)}
    launched = playbooks.launch(inventory=inventory, env=env).ok()
    assert launched.changed == {"h1": 1, "h2": 1}
    for host, seen in launched.by_host("Look at every node").items():
        assert seen.get("login_output", "") == (WELCOME if user == "noisy" else ""), host
    uid = fabric["h1"].run(["id", "-u", user]).stdout.strip()
    for host in (fabric["h1"], fabric["h2"]):
        assert [str(one.uid) for one in _nodes.ranks(host)] == [uid]
        log = _nodes.only(host, f"{HOMES[user]}/.muster/runs/main/*/rank-*/log")
        _nodes.eventually(
            lambda host=host, log=log: "all_sum(ones) = [2.0, 2.0, 2.0, 2.0]" in _nodes.read(host, log), "the sum"
        )
        (supervisor,) = _nodes.supervisors(host)
        assert supervisor.argv[0] == interpreter
        for path, info in _nodes.walk(host, f"{HOMES[user]}/.muster"):
            assert info.st_mode & 0o077 == 0, f"{path} can be read by others"

    status = playbooks.status(inventory=inventory, env=env).ok()
    assert [(rank["node"], rank["state"]) for rank in status.ranks] == [("h1", "running"), ("h2", "running")]
    gone = playbooks.teardown(inventory=inventory, env=env).ok()
    assert {receipt["verdict"] for receipt in gone.receipts.values()} == {"clean"}
    assert _nodes.left(fabric) == []
