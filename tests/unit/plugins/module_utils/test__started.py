"""The state started, with real processes: started, kept, replaced, refused, failed; and nothing left of a failure."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import termios
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _start
from ansible_collections.muster.mlx.plugins.module_utils._ending import ended, ending_of
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import raise_fence
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._started import started, wish_of
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state, records, runs

from tests.unit.make import INSTANCE, RUN, eventually, gone, needs_linux, options, tree

pytestmark = needs_linux

NODE = LinuxSystem()
NEXT = "20261130T214500Z-22222222"
SLEEP = ["/bin/sleep", "600"]


@pytest.fixture(autouse=True)
def nothing_left(places: Places) -> Iterator[None]:
    """End what a test started."""
    yield
    for one in all_records(places):
        if one.pid and not gone(one.pid):
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)


def all_records(places: Places) -> list[Record]:
    return [one for run in runs(places) for one in records(places, run) if isinstance(one, Record)]


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
    return port


PORT = free_port()
HOSTS = [[f"127.0.0.1:{PORT}"], [f"127.0.0.1:{PORT + 1}"]]


def up(places: Places, check: bool = False, **given: Any) -> dict[str, Any]:
    wanted = {
        "run": RUN,
        "ranks": [0, 1],
        "hosts": HOSTS,
        "instance": INSTANCE,
        "issued": 1000.0,
        "ready": "process",
        "command": SLEEP,
    }
    return started(
        places, wish_of(options("rank", **{**wanted, "ready_timeout": 10, "grace": 1, **given})), NODE, check
    )


def pids(result: dict[str, Any]) -> list[int]:
    return [one["pid"] for one in result["ranks"]]


class Late(subprocess.Popen[bytes]):
    """A supervisor that has its job, and does not get on with it until its input ends."""

    last: Late

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert self.stdin is not None
        self.kept = os.dup(self.stdin.fileno())
        Late.last = self

    def has_its_job(self) -> bool:
        """Whether it has read all that was written; it waits for the end of it then."""
        return fcntl.ioctl(self.kept, termios.FIONREAD, bytes(4)) == bytes(4)

    def poll(self) -> int | None:
        eventually(self.has_its_job)
        return super().poll()

    def go_on(self) -> None:
        """Let it get on with its job, and wait until it is done."""
        eventually(lambda: self.has_its_job() or self.returncode is not None)
        os.close(self.kept)
        self.wait(30)


def test_a_whole_life(places: Places) -> None:
    first = up(places)
    assert (first["changed"], first["action"]) == (True, "start")
    assert [(one["rank"], one["state"]) for one in first["ranks"]] == [(0, "running"), (1, "running")]
    assert not any(gone(pid) for pid in pids(first))
    again = up(places, instance=NEXT, issued=2000.0)
    assert (again["changed"], again["action"], pids(again)) == (False, "keep", pids(first))
    assert again["diff"] == {"before": {}, "after": {}}
    params = options("rank", run=RUN, state="absent", grace=5)
    end = ended(places, ending_of({**params, "issued": 3000.0}), NODE, False)
    assert (end["changed"], end["verdict"]) == (True, "clean")
    assert [rank["state"] for rank in end["receipt"]["ranks"]] == ["killed by SIGTERM"] * 2
    assert all(gone(pid) for pid in pids(first))
    assert all_records(places) == []


def test_one_rank_dead_means_all_anew(places: Places) -> None:
    first = up(places)
    os.kill(pids(first)[1], signal.SIGKILL)
    eventually(lambda: gone(pids(first)[1]))
    second = up(places, instance=NEXT, issued=2000.0)
    assert (second["changed"], second["action"]) == (True, "replace")
    assert "rank 1 is not running" in second["reason"]
    assert gone(pids(first)[0])
    assert not any(gone(pid) for pid in pids(second))
    assert {one.instance for one in all_records(places)} == {NEXT}


def test_another_specification_needs_a_word(places: Places) -> None:
    first = up(places)
    with pytest.raises(MusterError, match="mlx_replace=true"):
        up(places, instance=NEXT, issued=2000.0, command=["/bin/sleep", "601"])
    assert not any(gone(pid) for pid in pids(first))
    second = up(places, instance=NEXT, issued=2000.0, command=["/bin/sleep", "601"], replace=True)
    assert second["action"] == "replace"
    assert second["diff"]["before"]["rank 0"]["program"] == SLEEP
    assert second["diff"]["after"]["rank 0"]["program"] == ["/bin/sleep", "601"]
    assert all(gone(pid) for pid in pids(first))


def test_a_short_program_may_be_through(places: Places) -> None:
    result = up(places, command=["/bin/true"])
    assert {one["state"] for one in result["ranks"]} <= {"exited 0", "running"}


def test_a_run_of_the_same_name_in_another_state_directory_is_somebody_elses(places: Places, tmp_path: Path) -> None:
    first = up(places)
    params = options("rank", run=RUN, state="absent", grace=5)
    end = ended(open_state(str(tmp_path / "other")), ending_of({**params, "issued": 3000.0}), NODE, False)
    assert not any(gone(pid) for pid in pids(first))
    assert (end["verdict"], end["receipt"]["problems"]) == ("clean", [])


class TestCheckMode:
    """It says what it would do."""

    def test_nothing_is_written_where_nothing_is(self, places: Places) -> None:
        result = up(places, check=True)
        assert (result["changed"], result["action"]) == (True, "start")
        assert [(one["state"], one["pid"]) for one in result["ranks"]] == [("would start", None)] * 2
        assert not os.path.exists(places.root)

    def test_nothing_is_written_or_ended_where_something_runs(self, places: Places) -> None:
        first = up(places)
        before = tree(places.root)
        kept = up(places, check=True, instance=NEXT)
        other = up(places, check=True, instance=NEXT, command=["/bin/true"], replace=True)
        assert (kept["changed"], pids(kept), other["action"]) == (False, pids(first), "replace")
        assert tree(places.root) == before
        assert not any(gone(pid) for pid in pids(first))


class TestRefused:
    """Launches that start nothing at all."""

    def nothing_ran(self, places: Places) -> bool:
        return all_records(places) == []

    def test_a_teardown_that_the_launch_did_not_see(self, places: Places) -> None:
        raise_fence(places, RUN, 500.0, 500.0)
        with pytest.raises(MusterError, match="teardown of it passed") as caught:
            up(places, fence="")
        assert caught.value.facts["fenced"] is True
        assert self.nothing_ran(places)

    @pytest.mark.parametrize(("issued", "starts"), [(499.0, False), (501.0, True)])
    def test_without_a_token_the_time_of_issue_counts(self, places: Places, issued: float, starts: bool) -> None:
        raise_fence(places, RUN, 500.0, 500.0)
        if starts:
            assert up(places, issued=issued)["changed"]
        else:
            with pytest.raises(MusterError, match="teardown of it passed"):
                up(places, issued=issued)
            assert self.nothing_ran(places)

    def test_a_port_that_is_taken_with_its_holder(self, places: Places) -> None:
        taken = rf"127\.0\.0\.1:{PORT} is in use by process {os.getpid()}"
        with closing(socket.create_server(("127.0.0.1", PORT))), pytest.raises(MusterError, match=taken):
            up(places)
        assert self.nothing_ran(places)

    def test_a_port_of_another_living_run(self, places: Places) -> None:
        up(places, run=RUN + "-other")
        with pytest.raises(
            MusterError, match=rf"{PORT} belongs to rank 0 of run {RUN}-other.*{PORT + 1} belongs to rank 1"
        ):
            up(places)
        assert [one.run for one in all_records(places)] == [RUN + "-other"] * 2


class TestFailed:
    """Launches that fail take down what they started, and say so."""

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"command": ["/bin/sh", "-c", "echo no model >&2; exit 7"]}, "no model"),
            ({"command": ["/bin/sh", "-c", "kill -9 $$"]}, "should come up"),
            ({"command": SLEEP, "ready": "log", "ready_pattern": "up", "ready_timeout": 0.3}, "mlx_ready_timeout"),
        ],
    )
    def test_a_rank_that_does_not_come_up(self, places: Places, given: dict[str, Any], words: str) -> None:
        with pytest.raises(MusterError, match=f"(?s){words}") as caught:
            up(places, **{"ranks": [0], "hosts": HOSTS[:1], "ready": "log", "ready_pattern": "x", **given})
        assert caught.value.facts["receipt"]["verdict"] == "clean"
        assert caught.value.facts["failures"][0]["rank"] == 0
        assert caught.value.facts["stood_down"] is False
        assert all(gone(rank["pid"]) for rank in caught.value.facts["receipt"]["ranks"])
        assert all_records(places) == []

    def test_a_program_that_cannot_run(self, places: Places) -> None:
        with pytest.raises(MusterError, match="No such file"):
            up(places, command=["/no/such"])
        assert all_records(places) == []

    def test_a_supervisor_that_was_given_up_starts_nothing_later(
        self, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The node swaps, so that the birth takes too long; the launch is stood down; then the supervisor goes on."""
        monkeypatch.setattr(subprocess, "Popen", Late)
        monkeypatch.setattr(_start, "_BIRTH", 0.1)
        with pytest.raises(MusterError, match="should record its birth"):
            up(places, ranks=[0], hosts=HOSTS[:1], command=["/bin/sh", "-c", "echo ran > ran"], cwd=str(tmp_path))
        Late.last.go_on()
        assert not (tmp_path / "ran").exists()

    def test_a_supervisor_starts_nothing_when_the_next_one_cannot_be_spawned(
        self, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The node is out of processes, memory or disk after the first of two; the launch is stood down."""
        left = iter([Late])

        def spawn(*arguments: Any, **options: Any) -> Late:
            for kind in left:
                return kind(*arguments, **options)
            raise BlockingIOError(11, "Resource temporarily unavailable")

        monkeypatch.setattr(subprocess, "Popen", spawn)
        with pytest.raises(OSError, match="temporarily unavailable"):
            up(places, command=["/bin/sh", "-c", "echo ran > ran"], cwd=str(tmp_path))
        Late.last.go_on()
        assert not (tmp_path / "ran").exists()
