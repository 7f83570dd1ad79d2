"""The whole of it on a node in memory with a real temporary directory: look, decide, end, look again, remove."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _leftovers
from ansible_collections.muster.mlx.plugins.module_utils._arguments import LEFTOVERS
from ansible_collections.muster.mlx.plugins.module_utils._leftovers import asked_of, beside, clear
from ansible_collections.muster.mlx.plugins.module_utils._run import Places

from tests.unit.foreign_node import HERE, ForeignNode
from tests.unit.make import INSTANCE, MARK, process, put, record, tree
from tests.unit.memory import ignores

RING = '[["10.0.0.1:32323"], ["10.0.0.2:32324"]]\n'
NOW = 1_000_000.0
ALL = ("muster", "mlx.launch", "exo")


class Node(ForeignNode):
    """A node whose one temporary directory is real."""

    def __init__(self, folder: Path) -> None:
        super().__init__(process(HERE, ppid=1))
        folder.mkdir()
        self.folder = folder
        self.folders = [str(folder)]

    def file(self, name: str, text: str, age: float = 3600) -> str:
        """Put a file into the temporary directory."""
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (NOW - age, NOW - age))
        return str(path)

    def mlx_rank(self, pid: int, number: int, ppid: int = 1) -> tuple[str, str]:
        """Let a rank live as mlx.launch starts it, and return its two files."""
        coordination = self.file(f"tmp.coordinat{number}", RING, 3599.9)
        self.rank(pid, number, coordination, ppid=ppid)
        return self.file(f"tmp.pidfile{number:03}", f"{pid}\n", 3599.9), coordination

    def names(self) -> list[str]:
        """What is in the temporary directory."""
        return sorted(os.listdir(self.folder))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.delenv("TMPDIR", raising=False)
    return Node(tmp_path / "tmp")


def run(places: Places, node: Node, check: bool = False, remove: bool = True, **options: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in LEFTOVERS["argument_spec"].items()}
    asked = asked_of({**defaults, "grace": 5, "grace_max": 20, **options}, options.get("owners", ALL), remove)
    result = clear(places, asked, node, check)
    assert len(result["decisions"]) == len({(one.get("path"), one.get("pid")) for one in result["decisions"]})
    return result


def actions(result: dict[str, Any]) -> dict[str, str]:
    """File or process → action."""
    return {os.path.basename(one.get("path", "")) or str(one["pid"]): one["action"] for one in result["decisions"]}


def test_files_of_a_dead_rank_go_and_nothing_else(places: Places, node: Node) -> None:
    gone = [node.file("tmp.pidpidpid1", "4711\n"), node.file("tmp.hostshosts", RING)]
    node.file("tmp.texttextte", "hello\n")
    node.file("notes.txt", "hello\n")
    predicted = run(places, node, check=True)
    assert predicted["changed"]
    assert predicted["diff"]["before"].keys() == set(gone)
    assert len(node.names()) == 4
    result = run(places, node)
    assert sorted(result["removed"]) == sorted(gone)
    assert node.names() == ["notes.txt", "tmp.texttextte"]
    assert {one["action"] for one in predicted["decisions"]} == {"remove", "keep"}
    assert result["decisions"] == predicted["decisions"]
    again = run(places, node)
    assert (again["changed"], again["removed"], again["diff"]["before"]) == (False, [], {})


def test_check_mode_and_report_write_nothing(places: Places, node: Node) -> None:
    node.file("tmp.pidpidpid1", "4711\n")
    put(places, record())
    before = tree(node.folder), tree(places.root)
    assert run(places, node, check=True)["changed"]
    assert actions(run(places, node, remove=False, owners=("mlx.launch",))) == {"tmp.pidpidpid1": "report"}
    assert (tree(node.folder), tree(places.root)) == before


def test_a_foreign_rank_is_reported_and_keeps_its_files(places: Places, node: Node) -> None:
    node.mlx_rank(100, 2)
    result = run(places, node)
    assert actions(result) == {"tmp.coordinat2": "keep", "tmp.pidfile002": "keep", "100": "report"}
    assert [(one["pid"], one["rank"], one["launcher"]) for one in result["foreign"]] == [(100, 2, "gone")]
    assert (result["changed"], node.sent) == (False, [])


def test_on_request_it_goes_with_its_files_in_one_call(places: Places, node: Node) -> None:
    files = node.mlx_rank(100, 2)
    predicted = run(places, node, check=True, foreign_ranks="kill")
    assert set(predicted["diff"]["before"]) == {*files, "process 100"}
    assert node.sent == []
    result = run(places, node, foreign_ranks="kill")
    assert sorted(result["removed"]) == sorted(files)
    assert [(one["pid"], one["left"]) for one in result["ended"]] == [(100, [])]
    assert (node.names(), result["problems"]) == ([], [])
    assert not run(places, node, foreign_ranks="kill")["changed"]


def test_one_whose_launcher_lives_goes_by_pid_only(places: Places, node: Node) -> None:
    node.plain(50, "python", "mlx.launch", command="python")
    node.mlx_rank(100, 0, ppid=50)
    node.mlx_rank(110, 1, ppid=50)
    result = run(places, node, foreign_ranks="kill")
    assert (result["ended"], node.sent, result["changed"]) == ([], [], False)
    result = run(places, node, pids=[110])
    assert [one["pid"] for one in result["ended"]] == [110]
    assert 100 in node.processes
    assert node.names() == ["tmp.coordinat0", "tmp.pidfile000"]


def test_what_other_machines_say_of_its_ssh_connection_decides(places: Places, node: Node) -> None:
    node.plain(50, "sshd: me@pts/0", command="sshd")
    node.mlx_rank(100, 0, ppid=50)
    node.environs[100]["SSH_CONNECTION"] = "198.51.100.9 51234 198.51.100.1 22"
    assert run(places, node, foreign_ranks="kill")["ended"] == []
    assert run(places, node, foreign_ranks="kill", clients={"198.51.100.9:51234": "alive"})["ended"] == []
    result = run(places, node, foreign_ranks="kill", clients={"198.51.100.9:51234": "gone"})
    assert [one["pid"] for one in result["ended"]] == [100]


def test_one_that_does_not_end_keeps_its_files_and_is_a_problem(places: Places, node: Node) -> None:
    node.mlx_rank(100, 2)
    node.on(100, signal.SIGTERM, ignores)
    result = run(places, node, foreign_ranks="kill", escalate=False)
    assert "process 100" in result["problems"][0]
    assert (result["removed"], len(node.names())) == ([], 2)
    assert actions(result)["100"] == "end"


def test_one_that_the_kernel_holds_puts_the_node_into_quarantine(places: Places, node: Node) -> None:
    node.mlx_rank(100, 2)
    node.change(100, state="U")
    assert "only a reboot" in run(places, node, foreign_ranks="kill")["problems"][0]
    assert Path(places.root, "quarantine.json").exists()


@pytest.mark.parametrize("kill", ["report", "kill"])
def test_a_process_asked_for_that_is_no_foreign_rank_is_not_touched(places: Places, node: Node, kill: str) -> None:
    put(places, record())
    node.add(process(100))
    node.environs[100] = {"MUSTER_RANK": MARK, "MLX_RANK": "0"}
    node.plain(200, "vim")
    result = run(places, node, pids=[100, 200, 999], foreign_ranks=kill)
    assert [word.split(" (")[0].split(",")[0] for word in result["problems"]] == [
        "process 100 is rank 0 of run main",
        "process 200",
    ]
    assert (node.sent, result["ended"]) == ([], [])


def test_a_rank_that_lost_its_record_is_reported_and_ended_on_request(places: Places, node: Node) -> None:
    folder = put(places, record())
    node.add(process(100))
    node.environs[100] = {
        "MUSTER_RANK": MARK,
        "MLX_RANK": "0",
        "MLX_HOSTFILE": places.coordination("main", INSTANCE, 0),
    }
    assert run(places, node)["foreign"] == []
    (folder / "record.json").write_text("{")
    assert [one["owner"] for one in run(places, node)["foreign"]] == ["muster"]
    assert node.sent == []
    assert [one["pid"] for one in run(places, node, foreign_ranks="kill")["ended"]] == [100]


def test_muster_leaves_no_dead_instance(places: Places, node: Node) -> None:
    put(places, record())
    result = run(places, node)
    assert actions(result) == {INSTANCE: "remove"}
    assert {"record.json", f"hosts-{INSTANCE}-0.json"} <= {os.path.basename(path) for path in result["removed"]}
    assert not run(places, node)["changed"]


def test_owners_are_the_only_ones_looked_at(places: Places, node: Node) -> None:
    put(places, record())
    node.file("tmp.pidpidpid1", "4711\n")
    node.file("hosts_0.json", '["10.0.0.1:1"]')
    for owner, name in (("exo", "hosts_0.json"), ("mlx.launch", "tmp.pidpidpid1"), ("muster", INSTANCE)):
        assert actions(run(places, node, check=True, owners=[owner])) == {name: "remove"}
    assert run(places, node, check=True, owners=[])["decisions"] == []


def test_exo_that_runs_keeps_what_it_may_use(places: Places, node: Node) -> None:
    node.file("hosts_old-1_0.json", '["10.0.0.1:1"]', age=9000)
    node.file("hosts_new-1_0.json", '["10.0.0.1:1"]', age=60)
    node.plain(70, "python3", "/opt/bin/exo", command="python3")
    assert actions(run(places, node)) == {"hosts_old-1_0.json": "remove", "hosts_new-1_0.json": "keep"}
    node.end(70)
    assert actions(run(places, node)) == {"hosts_new-1_0.json": "remove"}


def test_the_users_directories_are_looked_through_too(places: Places, node: Node, tmp_path: Path) -> None:
    (tmp_path / "exo").mkdir()
    (tmp_path / "exo" / "hosts_0.json").write_text('["10.0.0.1:1"]')
    os.utime(tmp_path / "exo" / "hosts_0.json", (1, 1))
    assert run(places, node)["removed"] == []
    assert len(run(places, node, directories=[str(tmp_path / "exo"), str(tmp_path / "none")])["removed"]) == 1


def test_a_file_that_changes_in_between_stays(places: Places, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    path = node.file("tmp.pidpidpid1", "4711\n")
    plain = _leftovers.remove

    def late(entry: Any) -> str:
        Path(path).write_text("4712\n")
        return plain(entry)

    monkeypatch.setattr(_leftovers, "remove", late)
    result = run(places, node)
    assert (result["removed"], result["changed"]) == ([], False)
    assert [one["reason"] for one in result["decisions"]] == ["it changed while it was looked at"]


def test_a_file_that_cannot_be_removed_is_a_problem(
    places: Places, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = node.file("tmp.pidpidpid1", "4711\n")

    def refuse(_entry: Any) -> str:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(_leftovers, "remove", refuse)
    assert run(places, node)["problems"] == [f"{path} could not be removed: Operation not permitted"]


class TestBesideATeardown:
    """One call for both; neither costs the other anything."""

    def call(self, places: Places, node: Node, check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {name: option.get("default") for name, option in LEFTOVERS["argument_spec"].items()}
        params = {**defaults, "leftovers": "remove", **options}
        receipt = {"verdict": "clean", "problems": [], "ranks": []}
        done = {
            "changed": False,
            "verdict": "clean",
            "receipt": receipt,
            "diff": {"before": {"rank 0": "running"}, "after": {}},
        }
        return beside(lambda: done, params, places, node, check)

    def test_the_receipt_has_both(self, places: Places, node: Node) -> None:
        path = node.file("tmp.pidpidpid1", "4711\n")
        result = self.call(places, node)
        assert result["receipt"]["leftovers"]["removed"] == result["leftovers"]["removed"] == [path]
        assert set(result["diff"]["before"]) == {"rank 0", path}
        assert (result["changed"], result["verdict"], "failed" in result) == (True, "clean", False)

    def test_other_runs_are_left_alone(self, places: Places, node: Node) -> None:
        put(places, record(run="other"))
        assert self.call(places, node)["leftovers"]["decisions"] == []

    def test_what_is_not_proven_gone_makes_it_dirty(self, places: Places, node: Node) -> None:
        node.mlx_rank(100, 0)
        node.on(100, signal.SIGTERM, ignores)
        result = self.call(places, node, foreign_ranks="kill", escalate=False)
        assert (result["failed"], result["verdict"], result["receipt"]["verdict"]) == (True, "dirty", "dirty")
        assert "process 100" in result["msg"]
        assert result["receipt"]["problems"]

    def test_trouble_with_leftovers_costs_no_receipt(self, places: Places, node: Node) -> None:
        result = self.call(places, node, directories=["relative"])
        assert result["failed"]
        assert "could not be looked at" in result["msg"]
        assert "absolute" in result["receipt"]["problems"][0]

    def test_what_is_to_be_ended_goes_first(self, places: Places, node: Node) -> None:
        """A process with the run's marker keeps the receipt from being clean, so it must be gone by then."""
        node.mlx_rank(100, 0)
        seen = []
        defaults = {name: option.get("default") for name, option in LEFTOVERS["argument_spec"].items()}

        def teardown() -> dict[str, Any]:
            seen.append(100 in node.processes)
            return {"changed": False, "diff": {"before": {}, "after": {}}}

        for kill in ("report", "kill"):
            beside(teardown, {**defaults, "leftovers": "report", "foreign_ranks": kill}, places, node, False)
        assert seen == [True, False]
