"""Which files are left over: contents, processes, and time, each decision with its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._stale import Evidence, decide, is_coordination, pid_of
from ansible_collections.muster.mlx.plugins.module_utils._temporary import EXO, MLX_LAUNCH, Entry
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.make import process

NOW = 1_000_000.0
RING = b'[["10.0.0.1:32323"], ["10.0.0.2:32324"]]\n'
PID, FILE = "tmp.pppppppppp", "tmp.cccccccccc"


def entry(content: bytes, name: str = FILE, age: float = 3600, owner: str = MLX_LAUNCH, **changes: Any) -> Entry:
    return Entry(**{
        "folder": "/tmp", "name": name, "owner": owner, "device": 1, "inode": 2, "size": len(content),
        "modified_ns": int((NOW - age) * 1e9), "content": content, **changes,
    })  # fmt: skip


def exo(content: bytes = b'["10.0.0.1:5000"]', name: str = "hosts_ab-1_0.json", age: float = 3600) -> Entry:
    return entry(content, name, age, EXO)


NOTHING = Evidence(now=NOW, processes={}, names={}, ranks={}, held={})


def alive(*pids: int, **changes: Any) -> Evidence:
    """Processes that live, and whose environment names no coordination file."""
    there = {pid: process(pid, command="sleep") for pid in pids}
    return replace(NOTHING, processes=there, names=dict.fromkeys(pids, frozenset()), **changes)


def decided(one: Entry, seen: Evidence, *others: Entry) -> tuple[str, str]:
    finding = decide([one, *others], seen)[0]
    assert finding.path == one.path
    return finding.action, finding.reason


@pytest.mark.parametrize(
    ("content", "pid"),
    [
        (b"4711\n", 4711), (b"2\n", 2), (b"4194304\n", 4194304),
        (b"1\n", None), (b"0\n", None), (b"-5\n", None), (b"04711\n", None), (b"4711", None), (b"4711\r\n", None),
        (b" 4711\n", None), (b"4711 \n", None), (b"4711\n\n", None), (b"4711\n4712\n", None), (b"4711\nx", None),
        (b"99999999\n", None), ("\uff14\uff17\n".encode(), None), (b"pid 4711\n", None), (b"", None), (b"\n", None),
    ],
)  # fmt: skip
def test_pid_of(content: bytes, pid: int | None) -> None:
    assert pid_of(entry(content)) == pid
    assert pid_of(entry(content, "hosts_0.json", owner=EXO)) is None


def ring(*rows: Any) -> bytes:
    return json.dumps(list(rows)).encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "mlx", "of_exo"),
    [
        pytest.param(RING, True, True, id="ring"),
        pytest.param(ring(["10.0.0.1:1", "10.0.1.1:2"], ["10.0.0.2:3", "10.0.1.2:65535"]), True, True, id="wide"),
        pytest.param(ring([None, "rdma_en2"], ["rdma_en3", None]), True, True, id="matrix"),
        pytest.param(ring([None, ["rdma_en2", "rdma_en4"]], [["rdma_en3"], None]), True, True, id="matrix of lists"),
        pytest.param(
            ring([None, "a", None, "b"], ["c", None, "d", None], [None, "e", None, "f"], ["g", None, "h", None]),
            True, True, id="matrix of a ring",
        ),
        pytest.param(RING[:-1], False, True, id="no newline"),
        pytest.param(RING + b"\n", False, True, id="another newline"),
        pytest.param(RING.replace(b" ", b""), False, True, id="compact"),
        pytest.param(b'["10.0.0.1:5000","10.0.0.2:5000"]', False, True, id="flat, as exo writes it"),
        pytest.param(ring("10.0.0.1:5000"), False, True, id="flat, with mlx.launch's spaces"),
        pytest.param(ring(["10.0.0.1:32323"]), False, False, id="ring of one"),
        pytest.param(ring(["10.0.0.1:32323"], []), False, False, id="ring with an empty rank"),
        pytest.param(ring(["10.0.0.1"], ["10.0.0.2"]), False, False, id="no ports"),
        pytest.param(ring(["10.0.0.1:0"], ["10.0.0.2:1"]), False, False, id="port 0"),
        pytest.param(ring(["10.0.0.1:65536"], ["10.0.0.2:1"]), False, False, id="port too big"),
        pytest.param(ring(["10.0.0.256:1"], ["10.0.0.2:1"]), False, False, id="no address"),
        pytest.param(ring(["\uff11.0.0.1:1"], ["10.0.0.2:1"]), False, False, id="digits of another script"),
        pytest.param(ring(["mac1:1"], ["mac2:1"]), False, False, id="host names"),
        pytest.param(ring(["10.0.0.1:1"], "10.0.0.2:1"), False, False, id="mixed"),
        pytest.param(ring(["10.0.0.1:1"], [None]), False, False, id="null for an address"),
        pytest.param(ring([None, "a"], ["b"]), False, False, id="no square"),
        pytest.param(ring([None, "a"], ["b", "c"]), False, False, id="a device for itself"),
        pytest.param(ring([None, None], [None, None]), False, False, id="no device"),
        pytest.param(ring([None, ""], ["b", None]), False, False, id="empty device"),
        pytest.param(ring([None, []], ["b", None]), False, False, id="no devices in a list"),
        pytest.param(ring([None, 1], ["b", None]), False, False, id="number for a device"),
        pytest.param(ring([None]), False, False, id="matrix of one"),
        pytest.param(b"[]\n", False, False, id="empty list"),
        pytest.param(b"{}\n", False, False, id="object"),
        pytest.param(b'{"hosts": [["10.0.0.1:1"], ["10.0.0.2:1"]]}\n', False, False, id="in an object"),
        pytest.param(b'[{"ssh": "mac1", "ips": ["10.0.0.1"]}]\n', False, False, id="a hostfile"),
        pytest.param(RING + RING, False, False, id="twice"),
        pytest.param(b"\xff\xfe\n", False, False, id="no text"),
        pytest.param(b"[" * 100_000, False, False, id="endless nesting"),
        pytest.param(b"4711\n", False, False, id="a pid"),
        pytest.param(b"", False, False, id="nothing"),
    ],
)  # fmt: skip
def test_is_coordination(content: bytes, mlx: bool, of_exo: bool) -> None:
    assert is_coordination(entry(content)) is mlx
    assert is_coordination(exo(content)) is of_exo


@given(st.binary(max_size=60))
def test_nothing_but_the_exact_content_is_ever_removed(content: bytes) -> None:
    action, _reason = decided(entry(content), NOTHING)
    assert action == "keep" or pid_of(entry(content)) or is_coordination(entry(content))


@given(st.recursive(st.none() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=4)))
def test_no_other_json_is_a_coordination_file(value: Any) -> None:
    flat = json.dumps(value)
    if is_coordination(entry(flat.encode() + b"\n")):
        assert len(value) > 1
        assert all(isinstance(row, list) for row in value)
        assert ":" in flat or "null" in flat


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"\n", "empty"), (b"hello\n", "something else"), (b"4711\n4712\n", "something else")],
)
def test_what_stays_for_its_content(content: bytes, reason: str) -> None:
    action, words = decided(entry(content), NOTHING)
    assert action == "keep"
    assert reason in words


def test_what_could_not_be_read_stays() -> None:
    assert decided(entry(b"", odd="it is a FIFO"), NOTHING) == ("keep", "it is a FIFO")


class TestPidFile:
    """A pid file goes when its process is gone, and only then."""

    def test_its_process_is_gone(self) -> None:
        assert decided(entry(b"4711\n", PID), NOTHING) == ("remove", "its process 4711 is gone")

    def test_however_young_it_is(self) -> None:
        """The pid in it lived when it was written, and the processes were read later."""
        assert decided(entry(b"4711\n", PID, age=0), NOTHING)[0] == "remove"

    def test_its_process_lives_and_is_a_rank(self) -> None:
        seen = alive(4711, ranks={4711: "foreign rank 2"})
        assert decided(entry(b"4711\n", PID), seen) == ("keep", "process 4711 lives: foreign rank 2")

    def test_its_process_lives_and_is_no_rank(self) -> None:
        action, reason = decided(entry(b"4711\n", PID), alive(4711))
        assert (action, reason) == ("keep", "process 4711 lives and is not known to be an MLX rank (sleep)")

    def test_open_in_a_process(self) -> None:
        seen = alive(9, held={"/tmp/" + PID: [9]})
        assert decided(entry(b"4711\n", PID), seen) == ("keep", "open in process 9")


class TestCoordinationFile:
    """A coordination file goes when it is known that no process will use it."""

    def test_nobody_uses_it(self) -> None:
        assert decided(entry(RING), alive(9)) == ("remove", "no process uses it")

    @pytest.mark.parametrize(("age", "action"), [(0.0, "keep"), (4.9, "keep"), (5.1, "remove"), (-60.0, "keep")])
    def test_a_young_one_stays(self, age: float, action: str) -> None:
        found, reason = decided(entry(RING, age=age), NOTHING)
        assert found == action
        assert action == "remove" or "starting" in reason or "future" in reason

    def test_one_that_an_environment_names_stays(self) -> None:
        seen = replace(alive(9), names={9: frozenset([FILE])}, ranks={9: "foreign rank 0"})
        assert decided(entry(RING), seen) == ("keep", "used by process 9 (foreign rank 0)")

    def test_one_that_is_open_stays(self) -> None:
        assert decided(entry(RING), alive(9, held={"/tmp/" + FILE: [9]})) == ("keep", "open in process 9")

    def test_the_file_of_a_rank_that_was_ended_needs_not_be_old(self) -> None:
        assert decided(entry(RING, age=1), replace(NOTHING, freed=frozenset([FILE])))[0] == "remove"

    @pytest.mark.parametrize(
        ("later", "action"),
        [
            pytest.param(0.01, "keep", id="right after the pid file"),
            pytest.param(9.0, "keep", id="while the rank's shell waited"),
            pytest.param(0.0, "keep", id="in the same tick"),
            pytest.param(11.0, "remove", id="much later"),
            pytest.param(-2.0, "remove", id="before it"),
        ],
    )
    def test_one_beside_the_pid_file_of_a_process_that_may_need_it(self, later: float, action: str) -> None:
        """The rank's shell has not executed it yet, its environment is hidden, or it is somebody else: who can tell."""
        pid_file = entry(b"4711\n", PID, age=3600 + later)
        assert decided(entry(RING), alive(4711), pid_file)[0] == action
        assert decided(entry(RING), replace(alive(4711), names={}), pid_file)[0] == action

    def test_a_pid_file_in_another_directory_says_nothing(self) -> None:
        pid_file = entry(b"4711\n", PID, age=3600, folder="/other")
        assert decided(entry(RING), alive(4711), pid_file)[0] == "remove"

    def test_a_process_that_has_its_file_needs_no_other(self) -> None:
        seen = replace(alive(4711), names={4711: frozenset(["tmp.dddddddddd"])})
        assert decided(entry(RING), seen, entry(b"4711\n", PID))[0] == "remove"


class TestExo:
    """exo tells nobody which file it uses, so what runs now keeps all that it can have written."""

    def test_exo_is_not_running(self) -> None:
        assert decided(exo(), NOTHING) == ("remove", "no process uses it, and exo is not running")

    def test_older_than_the_exo_that_runs(self) -> None:
        assert decided(exo(), replace(NOTHING, exo_since=NOW - 3000))[0] == "remove"

    @pytest.mark.parametrize("since", [3600, 3599, 7200, 1e6])
    def test_written_since_the_exo_that_runs_was_started(self, since: float) -> None:
        action, reason = decided(exo(), replace(NOTHING, exo_since=NOW - since))
        assert action == "keep"
        assert "may use it" in reason

    def test_a_young_one_stays(self) -> None:
        assert decided(exo(age=1), NOTHING)[0] == "keep"

    def test_open_or_named(self) -> None:
        assert decided(exo(), alive(9, held={"/tmp/hosts_ab-1_0.json": [9]}))[0] == "keep"
        assert decided(exo(), replace(alive(9), names={9: frozenset(["hosts_ab-1_0.json"])}))[0] == "keep"

    def test_other_json_under_its_name_stays(self) -> None:
        assert decided(exo(b'[{"ssh": "mac1", "ips": []}]'), NOTHING) == ("keep", "it holds something else")

    def test_a_pid_under_its_name_stays(self) -> None:
        assert decided(exo(b"4711\n"), NOTHING) == ("keep", "it holds something else")
