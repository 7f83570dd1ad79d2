"""Files that look like leftovers, each kept or removed with its reason; ranks of Muster that lost their record."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fabric._accounts import HOMES
from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes
from tests.integration._playbooks import IDLE, Outcome, Playbooks

MATRIX = '[[null, "rdma_en2"], ["rdma_en3", null]]'
RING = '[["198.51.100.1:32323"], ["198.51.100.2:32324"]]\n'
UID = {"root": 0, "mlx": 1501}
HOUR = 3600.0


@pytest.fixture
def host(fabric: Fabric) -> Iterator[Host]:
    """One host; afterwards its temporary directory and its homes are as they were."""
    one = fabric["h2"]
    before = {place: set(os.listdir(_nodes.inside(one, place))) for place in ("/tmp", *HOMES.values())}
    yield one
    for place, names in before.items():
        new = set(os.listdir(_nodes.inside(one, place))) - names - {".ansible", ".muster"}
        one.run(["rm", "-rf", *(f"{place}/{name}" for name in new)])


def make(host: Host, path: str, text: str, user: str = "mlx", age: float = HOUR) -> str:
    """Write a file of this user and this age."""
    file = _nodes.inside(host, path)
    file.write_text(text)
    os.chown(file, UID[user], UID[user])
    os.utime(file, (time.time() - age, time.time() - age))
    return path


@contextmanager
def process(host: Host, code: str, *words: str, **environment: str) -> Iterator[int]:
    """A living process of the user mlx; it says `up` when it is there, and gets the pid that the host sees."""
    program = f"import os, sys, time; {code}; print('up', os.getpid(), flush=True); time.sleep(600)"
    with host.popen(
        [sys.executable, "-I", "-S", "-c", program, *words], user="mlx", env=environment, stdout=subprocess.PIPE
    ) as one:
        try:
            assert one.stdout is not None
            yield int(one.stdout.readline().split()[1])
        finally:
            one.kill()


def clean(playbooks: Playbooks, user: str = "mlx", **variables: Any) -> Outcome:
    """Run clean.yml on the one host as this user."""
    return playbooks.run("clean", inventory=playbooks.inventory({"h2": {"ansible_user": user}}), **variables).ok()


def reasons(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """File → what was decided, and why."""
    decisions = outcome.by_host("Remove what is left over")["h2"]["decisions"]
    return {one["path"]: (one["action"], one["reason"]) for one in decisions if "path" in one}


def tmp(host: Host) -> dict[str, Any]:
    """Everything in the temporary directory, as it can be compared."""
    found = {}
    for path, info in _nodes.walk(host, "/tmp"):
        file = _nodes.inside(host, path)
        content = (
            file.read_bytes()
            if file.is_file() and not file.is_symlink()
            else os.readlink(file)
            if file.is_symlink()
            else b""
        )
        found[path] = (info.st_mode, info.st_uid, info.st_ino, info.st_mtime_ns, content)
    return found


def test_what_only_looks_like_a_leftover_is_not_touched(playbooks: Playbooks, host: Host) -> None:
    """Every look-alike stays as it is, each with its reason, beside two files that are left over and go."""
    inside = _nodes.inside(host, "/tmp")
    secret = make(host, "/home/mlx/secret", "4194300\n")
    with (
        process(host, "pass") as innocent,
        process(host, "file = open(sys.argv[1])", make(host, "/tmp/tmp.openopenop", RING)) as holder,
        process(host, "pass", MLX_RANK="1", MLX_HOSTFILE=make(host, "/tmp/tmp.namednamed", RING)) as user,
    ):
        expected = {
            make(host, "/tmp/tmp.texttextte", "some text\n"): "it holds something else",
            make(host, "/tmp/tmp.secondline", "4194300\nmore\n"): "it holds something else",
            make(host, "/tmp/tmp.nonewlinex", "4194300"): "it holds something else",
            make(host, "/tmp/tmp.emptyempty", ""): "it is empty",
            make(
                host, "/tmp/tmp.innocentxx", f"{innocent}\n"
            ): f"process {innocent} lives and is not known to be an MLX rank",
            make(
                host, "/tmp/tmp.otherjsonx", '[{"ssh": "mac1", "ips": ["198.51.100.1"]}]\n'
            ): "it holds something else",
            make(host, "/tmp/tmp.ringof1xxx", '[["198.51.100.1:32323"]]\n'): "it holds something else",
            make(host, "/tmp/tmp.youngyoung", RING, age=0): "its rank may be starting",
            make(host, "/tmp/tmp.rootsrootx", "4194300\n", user="root"): "it belongs to user id 0",
            "/tmp/tmp.openopenop": f"open in process {holder}",
            "/tmp/tmp.namednamed": f"used by process {user}",
            "/tmp/tmp.linklinkli": "it is a symlink",
            "/tmp/tmp.fifofifofi": "it is a FIFO",
            "/tmp/tmp.folderfold": "it is a directory",
        }
        (inside / "tmp.linklinkli").symlink_to("/home/mlx/secret")
        os.mkfifo(inside / "tmp.fifofifofi")
        (inside / "tmp.folderfold").mkdir()
        for name in ("tmp.linklinkli", "tmp.fifofifofi", "tmp.folderfold"):
            os.lchown(inside / name, UID["mlx"], UID["mlx"])
        make(host, "/tmp/tmp.toolongname", RING)
        make(host, "/tmp/hosts.json", RING)
        before = tmp(host)
        # Far from the pid file of the innocent process, which it might else be meant for.
        gone = [make(host, "/tmp/tmp.deadpidxxx", "4194300\n"), make(host, "/tmp/tmp.deadring", RING, age=2 * HOUR)]

        outcome = clean(playbooks)
        found = reasons(outcome)
        assert {path: found[path] for path in gone} == {
            gone[0]: ("remove", "its process 4194300 is gone"),
            gone[1]: ("remove", "no process uses it"),
        }
        kept = {path: reason for path, (action, reason) in found.items() if action == "keep"}
        assert kept.keys() == expected.keys()
        assert [path for path, reason in expected.items() if reason not in kept[path]] == []
        assert all(path in outcome.out and reason in outcome.out for path, (_action, reason) in found.items())
        assert tmp(host) == before
        assert _nodes.read(host, secret) == "4194300\n"
        _nodes.inside(host, "/tmp/tmp.youngyoung").unlink()  # or it would be old by now
        assert clean(playbooks).changed == {"h2": 0}


def test_what_only_looks_like_a_rank_is_reported_and_not_ended(playbooks: Playbooks, host: Host) -> None:
    """A process that merely has MLX_RANK set is no rank for sure; one whose parent lives has a launcher that lives."""
    with (
        process(host, "pass", MLX_RANK="0") as bare,
        process(host, "pass", MLX_RANK="1", MLX_HOSTFILE="/tmp/x") as other,
    ):
        outcome = clean(playbooks, mlx_foreign_ranks="kill")
        (shown,) = outcome.by_host("Show ").values()
        assert {one["pid"]: one["action"] for one in shown["foreign"]} == {bare: "left", other: "left"}
        assert outcome.changed == {"h2": 0}
        named = clean(playbooks, mlx_pids={"h2": [bare]})
        (ended,) = named.by_host("Remove what is left over")["h2"]["ended"]
        assert (ended["pid"], ended["left"]) == (bare, [])


def test_files_of_a_dead_and_of_a_living_instance_of_exo(playbooks: Playbooks, host: Host) -> None:
    """Older than the exo that runs: gone, also with a folder of its own. Since then: kept, until exo has ended."""
    exo = make(host, "/home/mlx/exo", f"#!{sys.executable}\nimport time\nprint('up', 0, flush=True)\ntime.sleep(600)\n")
    os.chmod(_nodes.inside(host, exo), 0o755)
    flat = '["198.51.100.1:52416","198.51.100.2:52416"]'
    make(host, "/home/mlx/notes.json", flat)
    (_nodes.inside(host, "/tmp") / "tmpab12cd_3").mkdir(mode=0o700)
    os.chown(_nodes.inside(host, "/tmp/tmpab12cd_3"), UID["mlx"], UID["mlx"])
    dead = [
        make(host, "/tmp/hosts_11111111-1111-4111-8111-111111111111_0.json", flat),
        make(
            host,
            "/tmp/tmpab12cd_3/hosts_22222222-2222-4222-8222-222222222222_1.json",
            '[[null, "rdma_en2"], ["rdma_en3", null]]',
        ),
        make(host, "/home/mlx/hosts_0.json", flat),
    ]
    directories = ["~"]
    with host.popen([exo], user="mlx", stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()
            alive = [
                make(host, "/tmp/hosts_33333333-3333-4333-8333-333333333333_0.json", flat, age=0),
                make(host, "/home/mlx/hosts_1.json", flat, age=0),
            ]
            time.sleep(5.1)  # until then they are too young to say anything
            outcome = clean(playbooks, mlx_directories=directories)
            found = reasons(outcome)
            assert {path: found[path][0] for path in dead} == dict.fromkeys(dead, "remove")
            assert {path: found[path] for path in alive} == dict.fromkeys(
                alive, ("keep", "exo is running since before it was written, and may use it")
            )
            assert [path for path in [*dead, *alive] if host.files(path)] == alive
            assert host.files("/tmp/tmpab12cd_3") == []
        finally:
            running.kill()
    assert set(reasons(clean(playbooks, mlx_directories=directories))) == set(alive)
    assert [path for path in alive if host.files(path)] == []
    assert _nodes.read(host, "/home/mlx/notes.json") == flat


def test_a_dead_instance_of_muster_is_cleaned_and_a_living_one_is_not(playbooks: Playbooks, fabric: Fabric) -> None:
    """Records and coordination files of the run that ended go; the run that lives, and every log, stays."""
    two = playbooks.inventory({"h1": {}, "h2": {}})
    hosts = [fabric["h1"], fabric["h2"]]
    playbooks.launch(mlx_run="ended", program=IDLE, inventory=two).ok()
    for one in hosts:
        one.run(["kill", "-KILL", *(str(rank.pid) for rank in _nodes.ranks(one, "ended"))])
    _nodes.eventually(lambda: not any(map(_nodes.supervisors, hosts)), "the supervisors to write how it ended")
    living = playbooks.launch(mlx_run="living", program=IDLE, inventory=two).ok()
    assert [len(one.files("/root/.muster/runs/*/*/rank-*/record.json")) for one in hosts] == [2, 2]

    assert playbooks.run("clean", inventory=two).ok().changed == {"h1": 1, "h2": 1}
    for one in hosts:
        assert [path.split("/")[4] for path in one.files("/root/.muster/runs/*/*/rank-*/record.json")] == ["living"]
        assert len(one.files("/root/.muster/runs/ended/*/rank-*/log")) == 1
        assert [rank.pid for rank in _nodes.ranks(one)] == list(living.pids[one.name].values())
    assert playbooks.run("clean", inventory=two).ok().changed == {"h1": 0, "h2": 0}
    playbooks.teardown(mlx_run="living", inventory=two).ok()


def test_a_rank_that_lost_its_record_is_a_foreign_rank(playbooks: Playbooks, fabric: Fabric) -> None:
    """It is found by its environment, reported with a clear word, left alone, and ended on request with the others."""
    two = playbooks.inventory({"h1": {}, "h2": {}})
    launched = playbooks.launch(program=IDLE, inventory=two).ok()
    victims = {name: list(ranks.values()) for name, ranks in launched.pids.items()}
    record = {name: _nodes.only(fabric[name], "/root/.muster/runs/*/*/rank-*/record.json") for name in victims}
    _nodes.inside(fabric["h1"], record["h1"]).unlink()
    _nodes.inside(fabric["h2"], record["h2"]).write_text("")

    looked = playbooks.run("clean", inventory=two).ok()
    (shown,) = looked.by_host("Show ").values()
    assert {one["node"]: (one["owner"], one["processes"]) for one in shown["foreign"]} == {
        name: ("muster", pids) for name, pids in victims.items()
    }
    assert "record lost" in looked.by_host("Remove what is left over")["h2"]["decisions"][-1]["reason"]
    assert {name: [one.pid for one in _nodes.ranks(fabric[name])] for name in victims} == victims

    # The damaged record is still there, and a person has to look at it; the rank is gone on both.
    outcome = playbooks.teardown(inventory=two, mlx_foreign_ranks="kill").failed(record["h2"])
    for name, (pid,) in victims.items():
        assert _nodes.ranks(fabric[name]) == []
        (ended,) = outcome.by_host("Stand the ranks down")[name]["leftovers"]["ended"]
        assert (ended["pid"], ended["signals"][0][0], ended["left"]) == (pid, "SIGTERM", [])
    assert outcome.receipts["h1"]["verdict"] == "clean"
    _nodes.inside(fabric["h2"], record["h2"]).unlink()
    playbooks.teardown(inventory=two).ok()
