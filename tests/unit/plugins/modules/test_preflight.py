"""The module preflight by its main()."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.modules import preflight

from tests.unit.make import RUN, needs_linux
from tests.unit.plugins.modules.run import Ran

WANTED: dict[str, Any] = {"run": RUN, "ranks": [0], "hosts": [["127.0.0.1:1"], ["127.0.0.1:2"]], "command": ["/bin/sh"]}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], places: Places) -> Ran:
    return Ran(preflight.main, capsys, places.root)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({}, "one of the following is required", id="nothing"),
        pytest.param({"ranks": [0], "command": ["x"]}, "required together: ranks, hosts", id="half of it"),
        pytest.param({**WANTED, "program": ["x"]}, "mutually exclusive", id="two programs"),
        pytest.param({**WANTED, "run": "../x"}, "run's name", id="run that would leave"),
        pytest.param({**WANTED, "ranks": [5]}, "rank 5, and hosts has 2 rows", id="rank without a row"),
        pytest.param({**WANTED, "ranks": []}, "ranks", id="no ranks"),
        pytest.param({**WANTED, "command": []}, "program or command", id="no program"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_words(
    run: Ran, places: Places, options: dict[str, Any], words: str
) -> None:
    result = run(**options)
    assert result["failed"] is True
    assert words.lower() in result["msg"].lower()
    assert not os.path.exists(places.root)


@needs_linux
@pytest.mark.parametrize("check", [False, True])
def test_a_node_that_is_ready(run: Ran, places: Places, check: bool) -> None:
    result = run(check=check, **WANTED)
    assert (result["changed"], result["problems"], result["records"]) == (False, [], [])
    assert result["state_dir"] == places.root
    assert not os.path.exists(places.root)


@needs_linux
def test_a_node_that_is_not_ready_says_all_of_it(run: Ran, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        hosts = [[f"127.0.0.1:{port}"], ["127.0.0.1:2"]]
        result = run(**{**WANTED, "hosts": hosts, "cwd": str(tmp_path / "no"), "command": ["/no/such"]})
    assert result["failed"] is True
    assert len(result["problems"]) == 3
    assert all(problem in result["msg"] for problem in result["problems"])
    assert f"in use by process {os.getpid()}" in result["msg"]


@needs_linux
def test_the_interpreter_is_really_asked(run: Ran) -> None:
    result = run(run=RUN, ranks=[0], hosts=WANTED["hosts"], program=["-c", "pass"], python=sys.executable)
    assert result["python"] == sys.executable
    assert result["python_version"] == ".".join(map(str, sys.version_info[:3]))
