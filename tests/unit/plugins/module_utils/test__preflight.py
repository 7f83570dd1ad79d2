"""What is looked at before a launch, each look by itself and all together."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._coordination import refused_names
from ansible_collections.muster.mlx.plugins.module_utils._fence import raise_fence
from ansible_collections.muster.mlx.plugins.module_utils._preflight import (
    Asked,
    altered_files,
    check_addresses,
    check_cwd,
    check_program,
    check_python,
    check_state_dir,
    preflight,
)
from ansible_collections.muster.mlx.plugins.module_utils._process import Listener
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification
from ansible_collections.muster.mlx.plugins.plugin_utils._bootstrap import run_command

from tests.unit.make import process, put, record, sighting, specification, tree
from tests.unit.memory import MemorySystem

RING = (("127.0.0.1:32323",), ("127.0.0.1:32324",))


def asked(*argv: str, uses_python: bool = True, **changes: Any) -> Asked:
    wanted = specification(argv=argv, hosts=RING, **changes)
    return Asked((wanted,), sys.executable, uses_python, {"PATH": os.environ["PATH"]})


class Probe:
    """In place of running the interpreter: one answer, and what was asked."""

    def __init__(self, code: int = 0, out: str = "", err: str = "", **facts: Any) -> None:
        """Answer with facts as the probe prints them, among other words."""
        known = {"executable": "/py", "python": "3.13.0", "mlx": "0.32.4", "backend": True, **facts}
        line = "muster-probe:" + json.dumps({name: value for name, value in known.items() if value is not None})
        self.answer = (code, out or f"sitecustomize says hello\n{line}\n", err)
        self.seen: list[tuple[list[str], dict[str, str], str | None]] = []

    def __call__(self, argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
        """Answer."""
        self.seen.append((argv, environment, cwd))
        return self.answer


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, []),
        ({"PATH": "/x", "MLX_METAL_FAST_SYNCH": "1", "EMPTY": ""}, []),
        ({"MLX_RANK": "0"}, ["MLX_RANK"]),
        ({"MLX_HOSTFILE": "x", "MUSTER_RANK": "y"}, ["MLX_HOSTFILE", "MUSTER_RANK"]),
        ({"": "x"}, ["''"]),
        ({"A=B": "x"}, ["'A=B'"]),
        ({"A\0": "x"}, ["name"]),
        ({"A": "x\0y"}, ["A has a NUL in its value"]),
    ],
)
def test_refused_names(environment: dict[str, str], words: list[str]) -> None:
    found = refused_names(environment)
    assert len(found) == len(words)
    assert all(any(word in line for line in found) for word in words)


def test_check_state_dir_wants_a_place_to_write_and_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(str(tmp_path / "not/there/yet"))
    assert check_state_dir(places, 0) == []
    (problem,) = check_state_dir(places, 1 << 60)
    assert "MiB free" in problem
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (problem,) = check_state_dir(places, 0)
    assert f"{tmp_path} is not writable" in problem
    assert list(tmp_path.iterdir()) == []


def test_check_cwd(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert check_cwd(specification()) == check_cwd(specification(cwd=str(tmp_path))) == []
    for missing in ("file", "nothing"):
        assert "is no directory" in check_cwd(specification(cwd=str(tmp_path / missing)))[0]


@pytest.mark.parametrize(
    ("argv", "files", "probe", "words"),
    [
        pytest.param((sys.executable, "x.py"), {}, Probe(), [], id="all well"),
        pytest.param(("python3", "x.py"), {}, Probe(), ["no absolute path"], id="no path"),
        pytest.param(("/no/python", "x.py"), {}, Probe(), ["is not there or not executable"], id="no interpreter"),
        pytest.param(("/", "x.py"), {}, Probe(), ["is not there or not executable"], id="a folder"),
        pytest.param(
            (sys.executable, "x.py"), {}, Probe(1, "\n", "dyld: no"), ["exit code 1", "dyld: no"], id="crashes"
        ),
        pytest.param((sys.executable, "x.py"), {}, Probe(-14, "\n"), ["exit code -14", "no output"], id="hangs"),
        pytest.param(
            (sys.executable, "x.py"),
            {},
            Probe(mlx=None, error="ModuleNotFoundError: No module named 'mlx'"),
            ["cannot import mlx", "ModuleNotFoundError"],
            id="no mlx",
        ),
        pytest.param((sys.executable, "x.py"), {}, Probe(backend=False), ["has no backend ring"], id="no backend"),
        pytest.param((sys.executable, "-m", "mlx_lm"), {}, Probe(module=True), [], id="module"),
        pytest.param(
            (sys.executable, "-m", "mlx_lm"), {}, Probe(module=False), ["has no module mlx_lm"], id="no module"
        ),
        pytest.param(
            (sys.executable, "-m", "a.b"), {"a/b.py": "0"}, Probe(module=False), [], id="module that is brought"
        ),
        pytest.param(
            (sys.executable, "-m", "a.b"), {"a/x.py": "0"}, Probe(module=False), [], id="package that is brought"
        ),
        pytest.param(
            (sys.executable, "-m", "ab"), {"a/b.py": "0"}, Probe(module=False), ["no module ab"], id="not that one"
        ),
    ],
)
def test_check_python(argv: tuple[str, ...], files: dict[str, str], probe: Probe, words: list[str]) -> None:
    _facts, problems = check_python(asked(*argv, files=files), probe)
    assert bool(problems) == bool(words)
    assert all(word in problems[0] for word in words)


def test_check_python_asks_with_the_ranks_environment_where_it_will_run(tmp_path: Path) -> None:
    probe = Probe()
    check_python(asked(sys.executable, "x.py", environment={"A": "1"}, cwd=str(tmp_path)), probe)
    ((argv, environment, cwd),) = probe.seen
    assert (argv[0], environment, cwd) == (sys.executable, {"A": "1"}, str(tmp_path))


@pytest.mark.parametrize(("argument", "there"), [("json.tool", True), ("no_such_module_x", False), ("no.such", False)])
def test_check_python_with_a_real_interpreter(argument: str, there: bool) -> None:
    facts, problems = check_python(asked(sys.executable, "-m", argument), run_command)
    assert facts["executable"] == sys.executable
    assert facts["module"] is there
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert any("has no module" in problem for problem in problems) is not there


@pytest.mark.parametrize(
    ("argv", "uses_python", "changes", "words"),
    [
        pytest.param(("/py", "-m", "x"), True, {}, "", id="module"),
        pytest.param(("/py", "-c", "x"), True, {}, "", id="code"),
        pytest.param(("/py", "train.py"), True, {"files": {"train.py": "0"}}, "", id="script that is brought"),
        pytest.param(("/py", "./train.py"), True, {"files": {"train.py": "0"}}, "", id="spelt otherwise"),
        pytest.param(("/py", "train.py"), True, {}, "name the file in mlx_files", id="script that nobody brings"),
        pytest.param(("/py", "{here}/train.py"), True, {}, "", id="absolute script"),
        pytest.param(("/py", "train.py"), True, {"cwd": "{here}"}, "", id="script in mlx_cwd"),
        pytest.param(("/py", "gone.py"), True, {"cwd": "{here}"}, "gone.py is not there", id="missing in mlx_cwd"),
        pytest.param(("/py", "{here}"), True, {}, "is not there", id="a folder"),
        pytest.param(("sh",), False, {}, "", id="command on the path"),
        pytest.param(("no-such-command",), False, {}, "not on the PATH", id="command that is not"),
        pytest.param(("sh",), False, {"environment": {"PATH": "/no"}}, "not on the PATH /no", id="the rank's own path"),
        pytest.param(("/bin/sh",), False, {}, "", id="absolute command"),
        pytest.param(("{here}/train.py",), False, {}, "cannot be run", id="not executable"),
        pytest.param(("./run",), False, {"files": {"run": "0"}}, "", id="command that is brought"),
    ],
)
def test_check_program(
    tmp_path: Path, argv: tuple[str, ...], uses_python: bool, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "train.py").write_text("x")
    (tmp_path / "train.py").chmod(0o600)
    here = str(tmp_path)
    filled = {name: value.format(here=here) if isinstance(value, str) else value for name, value in changes.items()}
    found = check_program(asked(*(word.format(here=here) for word in argv), uses_python=uses_python, **filled))
    assert found == [] if not words else words in found[0]


def test_check_addresses() -> None:
    assert check_addresses(["127.0.0.1:1", "127.0.0.1:2"]) == []
    (problem,) = check_addresses(["127.0.0.1:1", "192.0.2.1:2", "192.0.2.1:3"])
    assert "mlx_ips has 192.0.2.1, which is not configured on this node" in problem


def test_altered_files_of_living_ranks_only(places: Places) -> None:
    one = record(files={"train.py": "00", "gone.py": "00"})
    put(places, one, {"train.py": "x"})
    work = places.work(one.run, one.instance)
    assert altered_files(places, [sighting(one)]) == [f"{work}/gone.py is missing", f"{work}/train.py is changed"]
    assert altered_files(places, [sighting(one, members=0, alive=False)]) == []


class TestAllTogether:
    """The preflight of a node."""

    def look(self, places: Places, node: MemorySystem, **changes: Any) -> dict[str, Any]:
        return preflight(places, asked(sys.executable, "-c", "x", **changes), Probe(module=True), node)

    def test_a_node_that_is_ready(self, places: Places) -> None:
        facts = self.look(places, MemorySystem())
        assert (facts["problems"], facts["records"], facts["fence"], facts["fence_age"]) == ([], [], "", None)
        assert (facts["python"], facts["python_version"], facts["mlx_version"]) == ("/py", "3.13.0", "0.32.4")
        assert facts["state_dir"] == places.root
        assert not os.path.exists(places.root)

    def test_every_problem_is_named_and_nothing_is_changed(self, places: Places) -> None:
        (put(places, record(rank=1)) / "record.json").write_text("{")
        node = MemorySystem(process(77))
        node.sockets = [Listener("0.0.0.0", 32323, 77, "nc")]
        before = tree(places.root)
        facts = self.look(places, node, cwd="/no/such", environment={"MLX_RANK": "1"})
        for word in ("MLX_RANK", "mlx_cwd /no/such", "port taken: 127.0.0.1:32323", "record.json cannot be believed"):
            assert [problem for problem in facts["problems"] if word in problem] != [], word
        assert tree(places.root) == before
        assert node.sent == []

    def test_records_and_fence_come_along(self, places: Places) -> None:
        put(places, record(hosts=RING))
        node = MemorySystem(process(), process(101, ppid=100))
        fence = raise_fence(places, "main", 1.0, node.now() - 60)
        facts = self.look(places, node)
        assert (facts["fence"], facts["fence_age"]) == (fence.token, 60.0)
        (one,) = json.loads(json.dumps(facts["records"]))
        assert (one["state"], one["alive"], len(one["members"]), one["record"]["pid"]) == ("running", True, 2, 100)

    def test_a_fence_is_as_old_as_it_is_when_the_answer_leaves(self, places: Places) -> None:
        """Importing mlx for the first time takes seconds, and the controller compares with its own time of then."""
        node = MemorySystem()
        raise_fence(places, "main", 1.0, node.now() - 60)

        def slow(argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
            node.sleep(8)
            return Probe()(argv, environment, cwd)

        facts = preflight(places, asked(sys.executable, "-c", "x"), slow, node)
        assert facts["fence_age"] == 68.0

    def test_a_single_rank_needs_no_address(self, places: Places) -> None:
        alone = Specification("main", 0, "ring", (sys.executable, "-c", "x"), (("192.0.2.1:1",),), 1)
        facts = preflight(places, Asked((alone,), sys.executable, True, {}), Probe(), MemorySystem())
        assert facts["problems"] == []
