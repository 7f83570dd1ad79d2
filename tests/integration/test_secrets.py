"""Values of `mlx_secret_env` reach the rank and nothing else."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.fabric._accounts import HOMES
from tests.fabric._fabric import Fabric
from tests.integration import _nodes, _secrets
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

WORDS = str(PROGRAMS / "words.py")


def assert_kept(value: str, outcome: Outcome, playbooks: Playbooks) -> None:
    """Neither what a run printed nor what it left on the controller tells the value."""
    assert "<h1>" in outcome.out or "<198." in outcome.out, "the run should have been as talkative as can be"
    lines = [line[:300] for line in outcome.text.splitlines() if _secrets.in_text(line, value)]
    assert not lines, lines
    assert _secrets.in_files(playbooks.home, value) == []
    told = [path for path in _secrets.in_files(playbooks.folder, value) if "/variables-" not in path]
    assert told == []


def assert_not_on(fabric: Fabric, value: str) -> None:
    """No file of Muster or Ansible on any host tells it."""
    for host in fabric.hosts:
        for home in HOMES.values():
            for name in (".muster", ".ansible"):
                assert _secrets.in_files(_nodes.inside(host, home) / name, value) == []


def launch_watched(playbooks: Playbooks, value: str, **asked: Any) -> Outcome:
    """Launch while every process of this machine, so of all hosts, is looked at: only the ranks may have the value."""
    with _secrets.Watch(value) as watch:
        launched = playbooks.launch("-vvvv", "--diff", mlx_secret_env={"TOKEN": value}, **asked).ok()
    print(f"every process was looked at {watch.rounds} times during the launch")
    assert watch.rounds > 10
    assert watch.shown == set(), "command lines that tell it"
    assert watch.held, "the ranks should have been seen with it"
    assert {words for words, is_rank in watch.held if not is_rank} == set(), "environments that tell it"
    for rank in launched.ranks:
        host, pattern = playbooks.fabric[rank["node"]], f"/root/.muster/runs/main/*/work/words-{rank['rank']}.json"
        path = _nodes.eventually(lambda host=host, pattern=pattern: host.files(pattern), "what the rank writes")[0]
        assert json.loads(_nodes.read(host, path))["environ"]["TOKEN"] == value
        _nodes.inside(host, path).unlink()
    return launched


def test_a_secret_reaches_its_rank_and_nothing_else(playbooks: Playbooks, fabric: Fabric) -> None:
    """Not in `-vvvv` of six playbooks, a file of Muster or Ansible, `ps`, or the environment of another process."""
    value = f"hunter-{secrets.token_hex(12)}"
    two = playbooks.inventory({"h1": {}, "h2": {}})
    asked = {"program": [WORDS], "mlx_ready": "process", "inventory": two}
    assert_kept(value, launch_watched(playbooks, value, **asked), playbooks)
    assert_not_on(fabric, value)
    again = playbooks.launch("-vvvv", "--diff", mlx_secret_env={"TOKEN": value}, **asked).ok()
    assert again.changed == {"h1": 0, "h2": 0}
    assert_kept(value, again, playbooks)
    other = playbooks.launch("-vvvv", "--diff", mlx_secret_env={"TOKEN": value + "x"}, **asked)
    assert_kept(value, other.failed("secret environment TOKEN: changed"), playbooks)
    assert_kept(value, playbooks.status("-vvvv", inventory=two).ok(), playbooks)
    assert_kept(value, playbooks.teardown("-vvvv", "--diff", inventory=two).ok(), playbooks)

    failing = {**asked, "program": [str(PROGRAMS / "fail.py"), "1", "7", "3"], "mlx_ready": "ring"}
    outcome = playbooks.launch("-vvvv", "--diff", mlx_secret_env={"TOKEN": value}, **failing).failed("exited 7")
    assert_kept(value, outcome, playbooks)
    assert_not_on(fabric, value)


def test_a_secret_where_modules_are_files(playbooks: Playbooks, fabric: Fabric) -> None:
    """The same for a launch and a teardown without pipelining, where Ansible writes modules to disk on the node."""
    value = f"hunter-{secrets.token_hex(12)}"
    asked = {"inventory": playbooks.inventory({"h1": {}, "h2": {}}), "env": {"ANSIBLE_PIPELINING": "false"}}
    launched = launch_watched(playbooks, value, program=[WORDS], mlx_ready="process", **asked)
    assert_kept(value, launched, playbooks)
    assert_not_on(fabric, value)
    assert_kept(value, playbooks.teardown("-vvvv", "--diff", **asked).ok(), playbooks)
    assert_not_on(fabric, value)


def test_a_short_secret_blanks_nothing_else(playbooks: Playbooks) -> None:
    """A value such as "1" is in every port and pid; the roll call and the results stay readable."""
    hosts = playbooks.inventory({"h1": {}, "h2": {}})
    asked = {
        "program": [WORDS, "1"],
        "mlx_secret_env": {"LEVEL": "1", "EMPTY": "", "ROLE": "rank"},
        "mlx_ready": "process",
    }
    outcome = playbooks.launch("-vvv", inventory=hosts, **asked).ok()
    assert "****" not in "\n".join(line for line in outcome.text.splitlines() if not line.startswith(("PLAY", "TASK")))
    assert [(rank["rank"], rank["node"], rank["state"]) for rank in outcome.ranks] == [
        (0, "h1", "running"),
        (1, "h2", "running"),
    ]
    for rank in outcome.ranks:
        assert rank["program"][-1] == "1"
        assert f"main  {rank['rank']}     {rank['node']}" in outcome.out
    assert playbooks.launch(inventory=hosts, **asked).ok().changed == {"h1": 0, "h2": 0}
    status = playbooks.status("-vvv", inventory=hosts).ok()
    assert status.pids == outcome.pids
    playbooks.teardown(inventory=hosts).ok()
