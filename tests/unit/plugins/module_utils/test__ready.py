"""When a launch is up, and how the wait ends otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import raise_fence, read_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, sight, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import Listener
from ansible_collections.muster.mlx.plugins.module_utils._ready import (
    ABORT,
    Proof,
    Stopped,
    await_ready,
    holds_ring,
    log_matches,
    proof_of,
    shows,
)
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import write_json

from tests.unit.make import INSTANCE, process, put, record
from tests.unit.memory import MemorySystem

RING, PROCESS = Proof("ring"), Proof("process")
LOG, PORT = Proof("log", "serving at .*:8080"), Proof("port", port=8080)


@pytest.mark.parametrize(
    ("options", "proof"),
    [
        ({}, RING),
        ({"ready": "process"}, PROCESS),
        ({"ready": "log", "ready_pattern": "up"}, Proof("log", "up")),
        ({"ready": "port", "ready_port": 80}, Proof("port", port=80)),
    ],
)
def test_proof_of(options: dict[str, Any], proof: Proof) -> None:
    params = {"backend": "ring", "ready": None, "ready_pattern": None, "ready_port": None, **options}
    assert proof_of(params) == proof


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ready": "log"}, "mlx_ready_pattern"),
        ({"ready": "log", "ready_pattern": ""}, "mlx_ready_pattern"),
        ({"ready": "port"}, "mlx_ready_port"),
        ({"ready": "log", "ready_pattern": "("}, "mlx_ready_pattern"),
    ],
)
def test_proof_of_refuses(options: dict[str, Any], words: str) -> None:
    params = {"backend": "ring", "ready": None, "ready_pattern": None, "ready_port": None, **options}
    with pytest.raises(MusterError, match=words):
        proof_of(params)


def node(*remotes: str, child: bool = False) -> MemorySystem:
    """A node where rank 0 runs with these connections, held by its child if so said."""
    found = MemorySystem(process(), process(101, ppid=100))
    found.remotes = {101 if child else 100: list(remotes)}
    return found


TWICE = (("10.0.0.1:1", "10.0.0.1:2"), ("10.0.0.2:3", "10.0.0.2:4"))
SAME = (("10.0.0.1:1",), ("10.0.0.2:3", "10.0.0.2:3"))


@pytest.mark.parametrize(
    ("hosts", "remotes", "child", "holds"),
    [
        ((("10.0.0.1:1",), ("10.0.0.2:2",)), ["10.0.0.2:2"], False, True),
        ((("10.0.0.1:1",), ("10.0.0.2:2",)), ["10.0.0.2:2"], True, True),
        ((("10.0.0.1:1",), ("10.0.0.2:2",)), ["8.8.8.8:53", "10.0.0.2:2", "10.0.0.1:50000"], False, True),
        ((("10.0.0.1:1",), ("10.0.0.2:2",)), [], False, False),
        ((("10.0.0.1:1",), ("10.0.0.2:2",)), ["10.0.0.1:1"], False, False),
        ((("10.0.0.1:1",), ("10.0.0.2:2",)), ["10.0.0.2:22"], False, False),
        (TWICE, ["10.0.0.2:3"], False, False),
        (TWICE, ["10.0.0.2:4", "10.0.0.2:3"], False, True),
        (SAME, ["10.0.0.2:3"], False, False),
        (SAME, ["10.0.0.2:3", "10.0.0.2:3"], False, True),
        ((("10.0.0.1:1",),), [], False, True),
    ],
)
def test_holds_ring(
    places: Places, hosts: tuple[tuple[str, ...], ...], remotes: list[str], child: bool, holds: bool
) -> None:
    seen = node(*remotes, child=child)
    assert holds_ring(sight(places, record(hosts=hosts), snapshot(seen)), seen) is holds


@pytest.mark.parametrize(
    ("changes", "proof", "remotes", "listener", "line", "up"),
    [
        pytest.param({}, PROCESS, [], None, "", True, id="process"),
        pytest.param({}, RING, [], None, "", False, id="ring, not yet"),
        pytest.param({}, RING, ["10.0.0.2:32324"], None, "", True, id="ring"),
        pytest.param({"backend": "jaccl"}, RING, [], None, "", True, id="no ring to see"),
        pytest.param({}, LOG, ["10.0.0.2:32324"], None, "serving", False, id="log, not yet"),
        pytest.param({}, LOG, [], None, "serving at h:8080", True, id="log"),
        pytest.param({"rank": 1}, LOG, [], None, "serving at h:8080", False, id="log, and rank 1 is to hold the ring"),
        pytest.param({"rank": 1}, LOG, ["10.0.0.1:32323"], None, "", True, id="log, rank 1 holds the ring"),
        pytest.param({}, PORT, [], Listener("0.0.0.0", 8080, 100, ""), "", True, id="port"),
        pytest.param({}, PORT, [], Listener("::", 8080, 101, ""), "", True, id="port, its child's"),
        pytest.param({}, PORT, [], Listener("0.0.0.0", 8081, 100, ""), "", False, id="another port"),
        pytest.param({}, PORT, [], Listener("0.0.0.0", 8080, None, ""), "", False, id="port, somebody else's"),
        pytest.param(
            {"rank": 1}, PORT, [], Listener("0.0.0.0", 8080, 100, ""), "", False, id="port, rank 1 is to hold"
        ),
    ],
)
def test_shows(
    places: Places,
    changes: dict[str, Any],
    proof: Proof,
    remotes: list[str],
    listener: Listener | None,
    line: str,
    up: bool,
) -> None:
    one = record(**changes)
    (put(places, one) / "log").write_text(f"loading\n{line}\nmore\n")
    seen = node(*remotes)
    seen.sockets = [listener] if listener else []
    assert shows(places, sight(places, one, snapshot(seen)), proof, seen) is up


@pytest.mark.parametrize(
    ("content", "pattern", "matches"),
    [
        (b"a\nbc\n", "^b", True),
        (b"a\nbc", "c$", True),
        (b"a\nbc\n", "a.b", False),
        (b"", "", False),
        (b"\xff up \xfe\n", "up", True),
    ],
)
def test_log_matches(tmp_path: Path, content: bytes, pattern: str, matches: bool) -> None:
    (tmp_path / "log").write_bytes(content)
    assert log_matches(str(tmp_path / "log"), pattern) is matches
    assert log_matches(str(tmp_path / "missing"), pattern) is False


def ended(places: Places, one: Record, code: int | None, number: int | None = None, unborn: str = "") -> None:
    data = {"code": code, "signal": number, "time": 1.0, "unborn": unborn}
    write_json(f"{places.rank(one.run, one.instance, one.rank)}/exit.json", data)


def wait(places: Places, ranks: list[Record], proof: Proof, timeout: float, seen: MemorySystem) -> list[Sighting]:
    """Wait as a start does, from the fence on that there is now."""
    return await_ready(places, ranks, read_fence(places, "main"), proof, timeout, seen)


class TestAwaitReady:
    """The wait for all ranks of this node."""

    def test_it_ends_when_the_last_one_shows_its_proof(self, places: Places) -> None:
        ranks = [record(), record(rank=1, pid=200, pgid=200)]
        for one in ranks:
            put(places, one)
        seen = MemorySystem(process(), process(200))
        seen.remotes = {100: ["10.0.0.2:32324"]}
        seen.at(3, lambda: seen.remotes.update({200: ["10.0.0.1:32323"]}))
        found = wait(places, ranks, RING, 60, seen)
        assert [one.state for one in found] == ["running", "running"]
        assert 3 <= seen.clock < 3.5

    def test_a_rank_at_its_supervisors_gate_is_not_up(self, places: Places) -> None:
        began = put(places, record()) / BEGAN
        began.unlink()
        seen = MemorySystem(process())
        seen.at(3, began.touch)
        assert wait(places, [record()], PROCESS, 60, seen)[0].alive
        assert 3 <= seen.clock < 3.5

    @pytest.mark.parametrize(
        ("code", "number", "state"),
        [(7, None, "exited 7"), (None, 9, "killed by SIGKILL"), (None, None, "dead")],
    )
    def test_a_rank_that_ends_first_ends_it_at_once_with_its_last_lines(
        self, places: Places, code: int | None, number: int | None, state: str
    ) -> None:
        ranks = [record(), record(rank=1, pid=200, pgid=200)]
        for one in ranks:
            (put(places, one) / "log").write_text(
                "".join(f"line {number}\n" for number in range(40)) + f"of {one.rank}\n"
            )
        seen = MemorySystem(process(), process(200))

        def fail() -> None:
            seen.end(200)
            if code is not None or number is not None:
                ended(places, ranks[1], code, number)

        seen.at(5, fail)
        with pytest.raises(MusterError, match=rf"Rank 1 should come up\. It {state}") as caught:
            wait(places, ranks, RING, 60, seen)
        assert not isinstance(caught.value, Stopped)
        assert seen.clock < 5.5
        (failure,) = caught.value.facts["failures"]
        assert (failure["rank"], failure["state"], failure["code"]) == (1, state, code)
        assert failure["last_lines"][-2:] == ["line 39", "of 1"]
        assert "line 39\nof 1" in str(caught.value)
        assert failure["log"] in str(caught.value)

    def test_a_supervisor_has_a_moment_to_write_how_its_rank_ended(self, places: Places) -> None:
        one = record(supervisor_pid=90, supervisor_start="4990")
        put(places, one)
        seen = MemorySystem(process(), process(90, start="4990"))
        seen.at(1, lambda: seen.end(100))
        seen.at(1.5, lambda: ended(places, one, 7))
        with pytest.raises(MusterError, match="exited 7"):
            wait(places, [one], RING, 60, seen)

    def test_a_rank_that_never_ran_says_why(self, places: Places) -> None:
        put(places, record())
        ended(places, record(), 127, None, "cannot run x in /y: No such file")
        with pytest.raises(MusterError, match="cannot run x in /y"):
            wait(places, [record()], RING, 60, MemorySystem())

    @pytest.mark.parametrize(
        ("changes", "proof", "up"),
        [
            ({}, RING, True),
            ({}, PROCESS, True),
            ({}, LOG, False),
            ({}, PORT, False),
            ({"rank": 1}, LOG, True),
            ({"rank": 1}, PORT, True),
        ],
    )
    def test_a_short_program_may_be_through_already_but_not_a_service(
        self, places: Places, changes: dict[str, Any], proof: Proof, up: bool
    ) -> None:
        one = record(**changes)
        put(places, one)
        ended(places, one, 0)
        if up:
            assert wait(places, [one], proof, 60, MemorySystem())[0].finished
        else:
            with pytest.raises(MusterError, match="exited 0"):
                wait(places, [one], proof, 60, MemorySystem())

    @pytest.mark.parametrize(
        ("rank", "proof", "words"),
        [
            (0, RING, "connected to the next rank"),
            (0, LOG, "its log matches"),
            (0, PORT, "listens on port 8080"),
            (1, LOG, "connected to the next rank"),
        ],
    )
    def test_it_does_not_last_longer_than_allowed(self, places: Places, rank: int, proof: Proof, words: str) -> None:
        one = record(rank=rank)
        (put(places, one) / "log").write_text("still loading\n")
        seen = MemorySystem(process())
        with pytest.raises(MusterError, match=rf"within mlx_ready_timeout \(7\.5 s\).*{words}") as caught:
            wait(places, [one], proof, 7.5, seen)
        assert 7.5 < seen.clock < 8
        assert caught.value.facts["failures"][0]["last_lines"] == ["still loading"]

    def test_a_fence_ends_it(self, places: Places) -> None:
        seen = MemorySystem(process())
        seen.at(4, lambda: raise_fence(places, "main", 1.0, 1.0))
        with pytest.raises(Stopped, match=r"(?i)a teardown of run main passed meanwhile"):
            wait(places, [record()], RING, 60, seen)
        assert seen.clock < 4.5

    def test_the_controller_ends_it(self, places: Places) -> None:
        put(places, record())
        seen = MemorySystem(process())
        seen.at(4, lambda: Path(places.instance("main", INSTANCE), ABORT).touch())
        with pytest.raises(Stopped, match="failed on another node"):
            wait(places, [record()], RING, 60, seen)
        assert seen.clock < 4.5
