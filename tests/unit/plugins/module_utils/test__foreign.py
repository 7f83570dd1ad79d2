"""Which processes are foreign ranks, and which of them may be ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._foreign import (
    ForeignRank,
    Scene,
    Wanted,
    decide_foreign,
    find_foreign,
)
from ansible_collections.muster.mlx.plugins.module_utils._launchers import Launcher
from ansible_collections.muster.mlx.plugins.module_utils._temporary import MLX_LAUNCH, Entry

from tests.unit.foreign_node import ME, ForeignNode
from tests.unit.make import BOOT, INSTANCE, MARK, process

ROOT = "/home/me/.muster"
HOSTS = f"{ROOT}/runs/main/{INSTANCE}/rank-0/hosts-{INSTANCE}-0.json"


def scene(node: ForeignNode, **changes: Any) -> Scene:
    table = node.table()
    seen = Scene(
        boot=BOOT,
        uid=ME,
        table=table,
        environments=node.environments(table),
        ages={pid: node.age(one) for pid, one in table.items()},
        own=(),
        recorded=(),
        here=(),
        now=node.now(),
        root=ROOT,
        instances=(),
    )
    return replace(seen, **changes)


def pid_file(pid: int, node: ForeignNode, age: float = 3599.9) -> Entry:
    return Entry("/tmp", "tmp.pppppppppp", MLX_LAUNCH, 1, 2, 5, int((node.now() - age) * 1e9), b"%d\n" % pid)


def found(node: ForeignNode, *entries: Entry, **changes: Any) -> dict[int, list[int]]:
    """Leader → all processes of each foreign rank."""
    ranks = find_foreign(scene(node, **changes), entries)
    return {one.leader.pid: [process.pid for process in one.processes] for one in ranks}


def only(node: ForeignNode, *entries: Entry, **changes: Any) -> ForeignRank:
    (one,) = find_foreign(scene(node, **changes), entries)
    return one


class TestFind:
    """A rank is told by its environment, and by nothing that it is called."""

    def test_a_rank_of_mlx_launch(self) -> None:
        node = ForeignNode()
        node.rank(100, 2, rss=7 << 20)
        node.plain(200, "python3", "train.py")
        one = only(node, pid_file(100, node))
        view = one.to_json()
        assert (view["pid"], view["rank"], view["owner"], view["memory"]) == (100, 2, "mlx.launch", 7 << 20)
        assert (view["coordination"], view["pid_file"]) == ("/tmp/tmp.AAAAAAAAAA", "/tmp/tmp.pppppppppp")
        assert view["age"] == 3600
        assert one.sure

    def test_children_belong_to_it(self) -> None:
        node = ForeignNode()
        node.rank(100)
        node.rank(101, ppid=100, pgid=100)
        node.plain(102, "helper", ppid=101)
        node.rank(103, ppid=1)
        assert found(node) == {100: [100, 101, 102, 103]}

    def test_of_a_wrapper_and_its_program_the_one_in_the_pid_file_leads(self) -> None:
        node = ForeignNode()
        node.rank(300)
        node.rank(100, ppid=300)
        assert found(node) == {300: [300, 100]}
        assert found(node, pid_file(100, node)) == {100: [100, 300]}

    def test_ranks_are_told_apart_by_number_and_file(self) -> None:
        node = ForeignNode()
        node.rank(100, 0)
        node.rank(110, 1)
        node.rank(120, 0, "/tmp/tmp.BBBBBBBBBB")
        assert found(node) == {100: [100], 110: [110], 120: [120]}

    def test_without_a_file_by_descent(self) -> None:
        node = ForeignNode()
        for pid, ppid in ((100, 1), (101, 100), (110, 1)):
            node.rank(pid, 0, "", ppid=ppid)
        assert found(node) == {100: [100, 101], 110: [110]}

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"uid": ME + 1}, id="another user's"),
            pytest.param({"state": "Z"}, id="a zombie"),
        ],
    )
    def test_who_is_none(self, changes: dict[str, Any]) -> None:
        node = ForeignNode()
        node.rank(100, **changes)
        assert found(node) == {}

    def test_a_recorded_rank_is_none(self) -> None:
        node = ForeignNode()
        node.rank(100, 0, HOSTS)
        node.environs[100]["MUSTER_RANK"] = MARK
        assert found(node, recorded={MARK}) == {}
        assert found(node, own={100}) == {}

    def test_who_looks_is_none(self) -> None:
        """A shell with MLX_RANK set, from which Ansible was started on this very machine."""
        node = ForeignNode()
        node.rank(100)
        node.rank(101, ppid=100)
        assert found(node, here={101, 100}) == {}
        assert found(node, here={101}) == {}

    def test_a_rank_of_muster_without_a_record(self) -> None:
        node = ForeignNode()
        node.rank(100, 0, HOSTS)
        node.environs[100]["MUSTER_RANK"] = MARK
        one = only(node, recorded={"main/other/0"})
        assert (one.owner, one.sure) == ("muster", True)
        assert "record lost" in one.describe()

    @pytest.mark.parametrize(
        ("coordination", "instances", "sure"),
        [
            pytest.param("/other/runs/main/x/rank-0/hosts-x-0.json", [], False, id="file in another state directory"),
            pytest.param("", [], False, id="no file"),
            pytest.param("", [f"main/{INSTANCE}"], True, id="no file, and its folder is here"),
            pytest.param(HOSTS, [], True, id="file here, folder gone"),
        ],
    )
    def test_whose_state_directory_it_belongs_to(self, coordination: str, instances: list[str], sure: bool) -> None:
        node = ForeignNode()
        node.rank(100, 0, coordination)
        node.environs[100]["MUSTER_RANK"] = MARK
        assert only(node, instances=instances).sure is sure

    def test_a_bare_number_is_not_sure(self) -> None:
        """MLX_RANK may have been exported in a shell, and then everything started from there has it."""
        node = ForeignNode()
        node.rank(100, 0, "")
        one = only(node)
        assert (one.owner, one.sure) == ("unknown", False)
        assert only(node, pid_file(100, node)).sure

    @pytest.mark.parametrize(
        ("age", "fits"), [(3599.9, True), (3601.5, True), (3575, True), (3605, False), (3500, False), (1, False)]
    )
    def test_a_pid_file_is_its_own_when_written_as_it_was_started(self, age: float, fits: bool) -> None:
        node = ForeignNode()
        node.rank(100)
        assert bool(only(node, pid_file(100, node, age)).pid_file) is fits


class TestHidden:
    """On macOS the environment of an Apple-signed program is hidden; only a pid file tells of it."""

    def node(self) -> ForeignNode:
        node = ForeignNode(process(100, ppid=1))
        node.add(process(101, ppid=100))
        return node

    def test_named_by_a_pid_file_of_its_birth(self) -> None:
        node = self.node()
        one = only(node, pid_file(100, node))
        assert (one.leader.pid, one.rank, one.sure, len(one.processes)) == (100, "", False, 2)

    def test_the_pid_file_is_much_older(self) -> None:
        node = self.node()
        assert found(node, pid_file(100, node, age=9000)) == {}

    def test_its_environment_is_readable_and_has_no_rank(self) -> None:
        node = self.node()
        node.environs[100] = {}
        assert found(node, pid_file(100, node)) == {}

    def test_it_is_a_rank_of_muster_that_got_the_number(self) -> None:
        node = self.node()
        assert found(node, pid_file(100, node), own={100}) == {}


REPORT, KILL = Wanted(False, ()), Wanted(True, ())
GONE, ALIVE, UNKNOWN = (
    Launcher("gone", "gone"),
    Launcher("alive", "mlx.launch, process 5"),
    Launcher("unknown", "ssh", "a:1"),
)


@pytest.mark.parametrize(
    ("wanted", "launcher", "changes", "action", "words"),
    [
        pytest.param(REPORT, GONE, {}, "report", "only reported", id="report"),
        pytest.param(KILL, GONE, {}, "end", "nobody is left", id="kill, launcher gone"),
        pytest.param(
            KILL, ALIVE, {}, "report", "its launcher lives; to end it, name its pid 100", id="kill, launcher alive"
        ),
        pytest.param(KILL, UNKNOWN, {}, "report", "cannot be seen from this node", id="kill, launcher not known"),
        pytest.param(KILL, GONE, {"sure": False}, "report", "not known for sure", id="kill, not sure"),
        pytest.param(KILL, ALIVE, {"owner": "muster"}, "end", "nobody is left", id="kill, record lost"),
        pytest.param(
            KILL, GONE, {"owner": "muster", "sure": False}, "report", "another state directory", id="kill, not ours"
        ),
        pytest.param(Wanted(False, {100}), ALIVE, {}, "end", "by pid", id="by pid, launcher alive"),
        pytest.param(Wanted(False, {101}), ALIVE, {}, "end", "by pid", id="by the pid of a child"),
        pytest.param(Wanted(False, {100}), UNKNOWN, {"sure": False}, "end", "by pid", id="by pid, not sure"),
        pytest.param(Wanted(False, {99}), GONE, {}, "report", "only reported", id="another pid"),
        pytest.param(Wanted(True, {99}), ALIVE, {}, "report", "its launcher lives", id="another pid, kill"),
    ],
)
def test_decide(wanted: Wanted, launcher: Launcher, changes: dict[str, Any], action: str, words: str) -> None:
    node = ForeignNode()
    node.rank(100)
    node.rank(101, ppid=100)
    one = replace(only(node, pid_file(100, node)), launcher=launcher, **changes)
    (finding,) = decide_foreign([one], wanted)
    assert (finding.pid, finding.action) == (100, action)
    assert words in finding.reason
    assert launcher.words in finding.reason
