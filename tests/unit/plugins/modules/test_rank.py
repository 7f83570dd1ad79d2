"""The module rank by its main(): options, check mode, and a whole life with real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.modules import rank, rank_info

from tests.unit.make import INSTANCE, RUN, gone, needs_linux, tree
from tests.unit.plugins.modules.run import Ran

WANTED: dict[str, Any] = {
    "run": RUN,
    "instance": INSTANCE,
    "ranks": [0],
    "hosts": [["127.0.0.1:32323"]],
    "command": ["/bin/sleep", "600"],
    "ready": "process",
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], places: Places) -> Ran:
    return Ran(rank.main, capsys, places.root)


@pytest.fixture
def info(capsys: pytest.CaptureFixture[str], places: Places) -> Iterator[Ran]:
    """The module's twin; what it sees at the end is ended."""
    ran = Ran(rank_info.main, capsys, places.root)
    yield ran
    for one in ran()["ranks"]:
        if one["pid"] and not gone(one["pid"]):
            with suppress(ProcessLookupError):
                os.killpg(one["pid"], signal.SIGKILL)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({}, "missing: ranks, hosts, instance", id="nothing"),
        pytest.param({"state": "started", "ranks": [0]}, "missing: hosts, instance", id="half of it"),
        pytest.param({**WANTED, "command": None}, "program, command", id="no program"),
        pytest.param({**WANTED, "program": ["x"]}, "mutually exclusive", id="two programs"),
        pytest.param({"state": "restarted"}, "value of state must be one of", id="no such state"),
        pytest.param({**WANTED, "ready": "soon"}, "value of ready must be one of", id="no such proof"),
        pytest.param({**WANTED, "ranks": ["zero"]}, "ranks", id="ranks in words"),
        pytest.param({**WANTED, "grace": "long"}, "grace", id="grace in words"),
        pytest.param({**WANTED, "colour": "red"}, "Unsupported parameters", id="unknown option"),
        # What only Muster itself can refuse:
        pytest.param({**WANTED, "run": "../x"}, "run's name", id="run that would leave"),
        pytest.param({**WANTED, "instance": "../x"}, "instance is named like", id="instance that would leave"),
        pytest.param({**WANTED, "ranks": [1]}, "rank 1, and hosts has 1 rows", id="rank without a row"),
        pytest.param({**WANTED, "ranks": []}, "ranks", id="no ranks"),
        pytest.param({**WANTED, "ready": "log"}, "mlx_ready_pattern", id="log without a pattern"),
        pytest.param({**WANTED, "ready": "port"}, "mlx_ready_port", id="port without a number"),
        pytest.param({**WANTED, "stop_signals": ["HARD"]}, "'HARD'", id="no such signal"),
        pytest.param({"state": "absent", "run": "A"}, "run's name", id="absent, bad name"),
        pytest.param({"state": "absent", "state_dir": "x/y"}, "absolute path", id="relative state directory"),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_a_request_that_cannot_be_is_refused_in_words_and_writes_nothing(
    run: Ran, places: Places, options: dict[str, Any], words: str, check: bool
) -> None:
    result = run(check=check, **{name: value for name, value in options.items() if value is not None})
    assert result["failed"] is True
    assert words.lower() in result["msg"].lower()
    assert not os.path.exists(places.root)


@needs_linux
def test_a_whole_life(run: Ran, info: Ran) -> None:
    started = run(**WANTED)
    assert (started["changed"], started["action"], started["ranks"][0]["state"]) == (True, "start", "running")
    pid = started["ranks"][0]["pid"]
    assert [one["pid"] for one in info(run=RUN)["ranks"]] == [pid]
    assert run(**WANTED)["changed"] is False
    assert run(check=True, **WANTED)["changed"] is False
    assert run(check=True, state="absent", run=RUN)["changed"] is True
    assert not gone(pid)
    stopped = run(state="stopped", run=RUN, grace=5)
    assert (stopped["changed"], stopped["verdict"]) == (True, "clean")
    assert gone(pid)
    assert [one["state"] for one in info()["ranks"]] == ["killed by SIGTERM"]
    absent = run(state="absent", run=RUN)
    assert (absent["changed"], absent["verdict"]) == (True, "clean")
    assert run(state="absent", run=RUN)["changed"] is False
    assert info()["ranks"] == []


@needs_linux
def test_check_mode_starts_nothing_and_writes_nothing(run: Ran, places: Places) -> None:
    result = run(check=True, **WANTED)
    assert (result["changed"], result["action"]) == (True, "start")
    assert (result["ranks"][0]["state"], result["ranks"][0]["pid"]) == ("would start", None)
    assert result["diff"]["after"]["rank 0"]["program"] == ["/bin/sleep", "600"]
    assert not os.path.exists(places.root)


@needs_linux
@pytest.mark.parametrize("options", [WANTED, {"state": "absent", "run": RUN}, {"state": "stopped", "run": RUN}])
def test_check_mode_changes_no_mode(run: Ran, places: Places, options: dict[str, Any]) -> None:
    Path(places.root).mkdir(mode=0o755)
    before = tree(places.root)
    run(check=True, **options)
    assert tree(places.root) == before


@needs_linux
def test_a_secret_reaches_the_rank_and_nothing_else(run: Ran, info: Ran, places: Places) -> None:
    secret = "correct-horse-battery-staple"
    wanted = {**WANTED, "command": ["/bin/sh", "-c", 'test -n "$TOKEN"'], "secret_env": {"TOKEN": secret}}
    result = run(**wanted)
    assert result["ranks"][0]["state"] in ("running", "exited 0")
    assert secret not in str({name: value for name, value in result.items() if name != "invocation"})
    assert secret not in str(info())
    assert not [path for path, (_mode, _time, content) in tree(places.root).items() if secret.encode() in content]


@needs_linux
def test_a_rank_that_fails_is_a_failure_with_facts(run: Ran, info: Ran) -> None:
    failing = {**WANTED, "command": ["/bin/sh", "-c", "echo no model; exit 7"], "ready": "log", "ready_pattern": "up"}
    result = run(**failing)
    assert result["failed"] is True
    assert "no model" in result["msg"]
    assert result["failures"][0]["rank"] == 0
    assert result["failures"][0]["last_lines"] == ["no model"]
    assert result["receipt"]["verdict"] == "clean"
    assert info()["ranks"] == []


@needs_linux
def test_a_state_directory_that_is_a_symlink_is_refused(run: Ran, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for options in (WANTED, {"state": "absent"}):
        result = run(**{**options, "state_dir": str(tmp_path / "link")})
        assert "it is a symlink" in result["msg"].lower()
    assert os.listdir(tmp_path) == ["link"]
