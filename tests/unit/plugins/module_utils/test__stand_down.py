"""Standing down, carried out on a node in memory: who gets which signal when, and who never gets one."""

from __future__ import annotations

import signal

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._look import sight, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy, Progress, stand_down

from tests.unit.make import INSTANCE, MARK, intended, process, record
from tests.unit.memory import MemorySystem, ends_after, ignores

TERM, KILL, INT = signal.SIGTERM, signal.SIGKILL, signal.SIGINT
SHORT = Policy(grace=5, grace_max=20)
MIB = 1 << 20


def down(places: Places, node: System, *records: Record, policy: Policy = SHORT) -> list[Progress]:
    """Stand ranks down as a teardown does: one look first."""
    seen = snapshot(node)
    return stand_down(places, [sight(places, one, seen) for one in records or (record(),)], policy, node)


def when(one: Progress) -> dict[str, float]:
    """Return at which second each signal was sent."""
    return dict(one.sent)


def test_a_rank_that_ends_on_the_first_signal_gets_no_other(places: Places) -> None:
    node = MemorySystem(process())
    (one,) = down(places, node)
    assert node.sent == [(0, "killpg", 100, TERM)]
    assert (one.was, one.members, one.sent) == ("running", (), [("SIGTERM", 0.0)])
    assert one.ended is not None and one.ended - one.began < 0.5


def test_sigkill_comes_when_the_grace_is_over(places: Places) -> None:
    node = MemorySystem(process())
    node.on(100, TERM, ignores)
    (one,) = down(places, node)
    assert node.signals(100) == ["SIGTERM", "SIGKILL"]
    assert when(one)["SIGKILL"] == pytest.approx(5, abs=0.25)
    assert one.members == ()


def test_signals_come_in_order_each_with_its_grace(places: Places) -> None:
    node = MemorySystem(process())
    node.on(100, INT, ignores)
    node.on(100, TERM, ignores)
    (one,) = down(places, node, policy=Policy((INT, TERM), 5, 20))
    assert [name for name, _seconds in one.sent] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert when(one)["SIGTERM"] == pytest.approx(5, abs=0.25)
    assert when(one)["SIGKILL"] == pytest.approx(10, abs=0.5)


def test_a_rank_that_cleans_up_within_its_grace_is_not_killed(places: Places) -> None:
    node = MemorySystem(process())
    node.on(100, INT, ends_after(4.5))
    (one,) = down(places, node, policy=Policy((INT, TERM), 5, 20))
    assert node.signals(100) == ["SIGINT"]
    assert one.ended == pytest.approx(4.5, abs=0.25)


def test_without_escalation_the_rank_is_left(places: Places) -> None:
    node = MemorySystem(process())
    node.on(100, TERM, ignores)
    (one,) = down(places, node, policy=Policy(grace=5, grace_max=20, escalate=False))
    assert node.signals(100) == ["SIGTERM"]
    assert [left.pid for left in one.members] == [100]
    assert one.ended is None
    assert node.clock == pytest.approx(5, abs=0.25)


@pytest.mark.parametrize(
    ("sizes", "killed"),
    [
        pytest.param([1000 - 10 * second for second in range(61)], 20, id="falls for ever: up to the maximum"),
        pytest.param([1000 - 10 * second for second in range(13)], 17, id="falls for 12 s: a grace more from there"),
        pytest.param([1000], 5, id="does not fall"),
        pytest.param([1000 + second for second in range(60)], 5, id="grows"),
        pytest.param([1000 - second % 2 * 0.9 for second in range(60)], 5, id="noise below 1 MiB"),
        pytest.param([1000 - second * 0.3 for second in range(60)], 20, id="falls slowly, 1 MiB in 4 s"),
        pytest.param([1000 - second * 0.15 for second in range(60)], 5, id="falls too slowly, 1 MiB in 7 s"),
        pytest.param(
            [1000 + second % 2 * 50 for second in range(60)], 5, id="swings and never gets below where it was"
        ),
    ],
)
def test_the_wait_goes_on_while_memory_falls(places: Places, sizes: list[float], killed: float) -> None:
    node = MemorySystem(process(rss=int(sizes[0] * MIB)))
    node.on(100, TERM, ignores)
    for second, size in enumerate(sizes):
        node.at(second, lambda size=size: node.change(100, rss=int(size * MIB)))  # type: ignore[misc]
    (one,) = down(places, node)
    assert when(one)["SIGKILL"] == pytest.approx(killed, abs=0.5)


def test_a_rank_that_releases_its_memory_and_ends_is_not_killed(places: Places) -> None:
    node = MemorySystem(process(rss=4000 * MIB))
    node.on(100, TERM, ends_after(60))
    for second in range(60):
        node.at(second, lambda second=second: node.change(100, rss=(4000 - 60 * second) * MIB))  # type: ignore[misc]
    (one,) = down(places, node, policy=Policy(grace=5, grace_max=180))
    assert node.signals(100) == ["SIGTERM"]
    assert one.ended == pytest.approx(60, abs=0.5)


@pytest.mark.parametrize("state", ["D", "U"])
def test_what_the_kernel_holds_is_left_and_never_called_gone(places: Places, state: str) -> None:
    node = MemorySystem(process(state=state))
    (one,) = down(places, node)
    assert node.signals(100) == ["SIGTERM", "SIGKILL"]
    assert [left.pid for left in one.members if left.uninterruptible] == [100]
    assert one.ended is None
    assert 5 + 2 < node.clock < 5 + 10


def test_a_stopped_process_is_continued_so_that_it_can_take_the_signal(places: Places) -> None:
    node = MemorySystem(process(state="T"))
    node.on(100, TERM, ends_after(1))
    (one,) = down(places, node)
    assert node.signals(100) == ["SIGTERM", "SIGCONT"]
    assert one.ended == pytest.approx(1, abs=0.25)


def test_processes_in_other_sessions_are_reached_one_by_one(places: Places) -> None:
    node = MemorySystem(
        process(),
        process(101, ppid=100, pgid=100),
        process(102, ppid=100),
        process(103, ppid=102),
        process(104),
        process(105, ppid=1),
        process(106, ppid=105),
        markers={100: MARK, 104: MARK, 105: f"main/{INSTANCE}/1"},
    )
    (one,) = down(places, node)
    assert {(how, target) for _when, how, target, _number in node.sent} == {
        ("killpg", 100),
        ("kill", 102),
        ("kill", 103),
        ("kill", 104),
    }
    assert sorted(node.processes) == [105, 106]
    assert one.members == ()


def test_a_process_born_meanwhile_is_ended_too(places: Places) -> None:
    node = MemorySystem(process(), markers={100: MARK})

    def leave_a_child(node: MemorySystem, pid: int) -> None:
        node.add(process(150, ppid=pid, start="7000"), MARK)
        node.on(150, TERM, ignores)
        node.end(pid)

    node.on(100, TERM, leave_a_child)
    (one,) = down(places, node)
    assert node.signals(150) == ["SIGKILL"]
    assert (one.members, node.processes) == ((), {})


class TestNobodyElse:
    """No signal ever goes to a process that is not proven to be the rank's."""

    @pytest.mark.parametrize(
        ("there", "session"),
        [
            pytest.param([process(start="5001")], None, id="pid reused by the same program"),
            pytest.param([process(start="5001"), process(101, ppid=100, pgid=100)], None, id="pid and group reused"),
            pytest.param([process(101, pgid=100)], None, id="leader gone, somebody in a group of that number"),
            pytest.param([process()], "another-boot", id="pid and start agree, and it is another boot"),
            pytest.param([process(state="Z"), process(101, pgid=100)], None, id="leader a zombie"),
            pytest.param([process(200)], None, id="same program under another pid"),
            pytest.param([], None, id="nothing there"),
        ],
    )
    def test_no_signal_at_all(self, places: Places, there: list, session: str | None) -> None:  # type: ignore[type-arg]
        node = MemorySystem(*there)
        node.session = session or node.session
        (one,) = down(places, node)
        assert node.sent == []
        assert (one.was, one.members, one.sent) == ("dead", (), [])
        assert sorted(node.processes) == [process.pid for process in there]

    def test_an_intended_rank_has_nobody_to_signal(self, places: Places) -> None:
        node = MemorySystem(process())
        (one,) = down(places, node, intended())
        assert (node.sent, one.was) == ([], "intended")

    def test_of_a_dead_rank_only_the_marked_child_is_signalled_and_not_the_group(self, places: Places) -> None:
        stranger = process(101, pgid=100, start="9000")
        node = MemorySystem(process(150, pgid=100, ppid=1), stranger, markers={150: MARK})
        down(places, node)
        assert [(how, target) for _when, how, target, _number in node.sent] == [("kill", 150)]
        assert list(node.processes) == [101]

    def test_a_pid_that_is_reused_right_after_the_look_is_spared(self, places: Places) -> None:
        node = MemorySystem(process(), process(102, ppid=100, start="5060"))
        stranger = process(102, start="8000")
        node.after_look = [lambda: None, lambda: node.add(stranger)]
        down(places, node)
        assert node.signals(102) == []
        assert node.processes == {102: stranger}

    def test_a_leader_whose_pid_is_reused_right_after_the_look_is_spared(self, places: Places) -> None:
        node = MemorySystem(process())
        stranger = process(start="8000")
        node.after_look = [lambda: None, lambda: node.add(stranger)]
        down(places, node)
        assert node.processes == {100: stranger}

    def test_a_second_signal_spares_who_took_over_the_pid(self, places: Places) -> None:
        node = MemorySystem(process())
        stranger = process(start="8000")

        def hand_over(node: MemorySystem, pid: int) -> None:
            node.end(pid)
            node.add(stranger)

        node.on(100, TERM, hand_over)
        down(places, node)
        assert node.signals(100) == ["SIGTERM"]
        assert node.processes == {100: stranger}


@pytest.mark.parametrize("days", [-1, 1])
def test_a_wall_clock_set_by_a_day_changes_neither_identity_nor_grace(places: Places, days: int) -> None:
    node = MemorySystem(process())
    node.on(100, TERM, ignores)
    node.wall += days * 86400
    node.at(2, lambda: setattr(node, "wall", node.wall + days * 86400))
    (one,) = down(places, node)
    assert node.signals(100) == ["SIGTERM", "SIGKILL"]
    assert when(one)["SIGKILL"] == pytest.approx(5, abs=0.25)


def test_ranks_are_stood_down_at_the_same_time(places: Places) -> None:
    node = MemorySystem(process(), process(200), process(300))
    for pid in (100, 200, 300):
        node.on(pid, TERM, ignores)
    ranks = [record(), record(rank=1, pid=200, pgid=200), record(rank=1, pid=300, pgid=300)]
    found = down(places, node, *ranks)
    assert [one.members for one in found] == [(), (), ()]
    assert node.clock < 6


def test_a_refused_signal_does_not_keep_the_others_from_being_stood_down(places: Places) -> None:
    """A rank's child that runs as another user (sudo, a set-uid program) cannot be signalled; the rest still can."""
    node = MemorySystem(process(), process(102, ppid=100, uid=12345), process(200), markers={102: MARK})
    node.refused = {102}
    first, second = down(places, node, record(), record(rank=1, pid=200, pgid=200))
    assert [left.pid for left in first.members] == [102]
    assert second.members == ()


def test_a_leader_that_became_a_zombie_after_the_look_is_no_refusal(places: Places) -> None:
    """killpg(2) of XNU skips zombies, and says EPERM rather than ESRCH when none is left."""
    node = MemorySystem(process())

    def end_unreaped() -> None:
        node.change(100, state="Z")
        node.refused = {100}

    node.after_look = [lambda: None, end_unreaped]
    (one,) = down(places, node)
    assert one.members == ()


def test_a_child_that_outlives_its_leader_during_the_teardown_is_ended(places: Places) -> None:
    """It was proven to belong by the first look; that its environment cannot be read changes nothing."""
    node = MemorySystem(process(), process(101, ppid=100, pgid=100, start="5050"), markers={100: MARK})
    node.on(101, TERM, ignores)
    (one,) = down(places, node)
    assert one.members or not node.processes


class TestSupervisor:
    """The supervisor has a moment to write exit.json, and does not outlive the teardown."""

    supervised = record(supervisor_pid=90, supervisor_start="4990")

    def test_it_may_finish(self, places: Places) -> None:
        node = MemorySystem(process(), process(90, start="4990"))

        def end_and_write(node: MemorySystem, pid: int) -> None:
            node.end(pid)
            node.at(node.clock + 1, lambda: node.end(90))

        node.on(100, TERM, end_and_write)
        down(places, node, self.supervised)
        assert node.signals(90) == []
        assert node.clock == pytest.approx(1, abs=0.25)

    def test_one_that_hangs_is_ended(self, places: Places) -> None:
        node = MemorySystem(process(), process(90, start="4990"))
        down(places, node, self.supervised)
        assert node.signals(90) == ["SIGKILL"]
        assert node.processes == {}

    def test_it_stays_with_a_rank_that_stays(self, places: Places) -> None:
        node = MemorySystem(process(state="D"), process(90, start="4990"))
        down(places, node, self.supervised)
        assert node.signals(90) == []

    @pytest.mark.parametrize(("start", "session"), [("4991", None), ("4990", "another-boot")])
    def test_whoever_has_its_pid_now_is_spared(self, places: Places, start: str, session: str | None) -> None:
        node = MemorySystem(process(90, start=start))
        node.session = session or node.session
        down(places, node, self.supervised)
        assert (node.sent, sorted(node.processes)) == ([], [90])
