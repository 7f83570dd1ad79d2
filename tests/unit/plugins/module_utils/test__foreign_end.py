"""Ending foreign ranks on a node in memory: who gets a signal, who never does, and what is proven."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._foreign import ForeignRank, find_foreign
from ansible_collections.muster.mlx.plugins.module_utils._foreign_end import Ended, end_foreign
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy

from tests.unit.foreign_node import ME, ForeignNode
from tests.unit.make import process
from tests.unit.memory import MemorySystem, ends_after, ignores
from tests.unit.plugins.module_utils.test__foreign import scene

TERM, KILL = signal.SIGTERM, signal.SIGKILL
POLICY = Policy(grace=5, grace_max=20)


def end(node: ForeignNode, policy: Policy = POLICY) -> list[Ended]:
    """End all foreign ranks of the node."""
    return end_foreign(look(node)(), policy, node, look(node))


def look(node: ForeignNode) -> Callable[[], list[ForeignRank]]:
    return lambda: find_foreign(scene(node), [])


def test_one_that_leads_its_session_is_signalled_as_a_group() -> None:
    """As a rank of mlx.launch on another machine does: the pid file's process led the ssh session's terminal."""
    node = ForeignNode()
    node.rank(100)
    node.rank(101, ppid=100, pgid=100)
    (one,) = end(node)
    assert node.sent == [(0, "killpg", 100, TERM)]
    assert (one.left, one.signals, one.stuck) == ((), (("SIGTERM", 0.0),), ())
    assert one.seconds is not None and one.seconds < 0.5


def test_one_in_its_launchers_group_is_signalled_alone() -> None:
    """A rank of mlx.launch on the same machine shares the group with mlx.launch, and with every other rank."""
    node = ForeignNode()
    node.plain(50, "mlx.launch")
    node.plain(51, "ssh", ppid=50, pgid=50)
    node.rank(100, 0, ppid=50, pgid=50)
    node.rank(110, 1, "/tmp/tmp.BBBBBBBBBB", ppid=50, pgid=50)
    ranks = [one for one in look(node)() if one.rank == "0"]
    (one,) = end_foreign(ranks, POLICY, node, look(node))
    assert node.sent == [(0, "kill", 100, TERM)]
    assert sorted(node.processes) == [50, 51, 110]
    assert one.left == ()


def test_children_in_other_sessions_go_too() -> None:
    node = ForeignNode()
    node.rank(100)
    node.plain(101, "helper", ppid=100)
    node.rank(102, ppid=1)
    node.plain(103, "helper", ppid=102)
    node.plain(200, "innocent")
    end(node)
    assert sorted(node.processes) == [200]
    assert node.signals(200) == []


def test_grace_then_sigkill() -> None:
    node = ForeignNode()
    node.rank(100)
    node.on(100, TERM, ignores)
    (one,) = end(node)
    assert [name for name, _second in one.signals] == ["SIGTERM", "SIGKILL"]
    assert one.signals[1][1] == pytest.approx(5, abs=0.25)
    assert one.left == ()


def test_without_escalation_it_stays_and_is_named() -> None:
    node = ForeignNode()
    node.rank(100)
    node.on(100, TERM, ignores)
    (one,) = end(node, Policy(grace=5, escalate=False))
    assert [process.pid for process in one.left] == [100]
    assert one.seconds is None
    assert one.stuck == ()
    assert "process 100" in one.describe()


def test_the_wait_goes_on_while_its_memory_falls() -> None:
    node = ForeignNode()
    node.rank(100, rss=1000 << 20)
    node.on(100, TERM, ends_after(12))
    for second in range(12):
        node.at(second, lambda second=second: node.change(100, rss=(1000 - 50 * second) << 20))  # type: ignore[misc]
    (one,) = end(node)
    assert [name for name, _second in one.signals] == ["SIGTERM"]
    assert one.seconds == pytest.approx(12, abs=0.5)


def test_what_the_kernel_holds_is_never_called_gone() -> None:
    node = ForeignNode()
    node.rank(100, state="U")
    (one,) = end(node)
    assert [process.pid for process in one.stuck] == [100]
    assert "only a reboot" in one.describe()


def test_a_child_that_escapes_while_its_rank_ends_is_ended_too() -> None:
    """It moved to a session of its own, and its parent was gone before anybody looked: its environment tells."""
    node = ForeignNode()
    node.rank(100)

    def escape(node: MemorySystem, pid: int) -> None:
        node.end(pid)
        assert isinstance(node, ForeignNode)
        node.rank(150, ppid=1, start="7000")

    node.on(100, TERM, escape)
    (one,) = end(node)
    assert node.signals(150) == ["SIGTERM"]
    assert (one.left, node.processes) == ((), {})


def test_one_that_breeds_for_ever_is_left_in_the_end() -> None:
    node = ForeignNode()
    node.rank(100)

    def breed(node: MemorySystem, pid: int) -> None:
        node.end(pid)
        assert isinstance(node, ForeignNode)
        node.rank(pid + 1, ppid=1)
        node.on(pid + 1, TERM, breed)

    node.on(100, TERM, breed)
    (one,) = end(node)
    assert len(node.sent) == 3
    assert [process.pid for process in one.left] == [103]


def test_several_at_the_same_time() -> None:
    node = ForeignNode()
    for number in range(3):
        node.rank(100 + number, number)
        node.on(100 + number, TERM, ignores)
    assert [one.left for one in end(node)] == [(), (), ()]
    assert node.clock < 6


@pytest.mark.parametrize("pid", [100, 101])
def test_whoever_has_the_number_now_is_spared(pid: int) -> None:
    node = ForeignNode()
    node.rank(100)
    node.rank(101, ppid=100)
    ranks = look(node)()
    stranger = process(pid, start="8000")
    node.end(pid)
    node.add(stranger)
    end_foreign(ranks, POLICY, node, look(node))
    assert node.signals(pid) == []
    assert node.processes[pid] == stranger


def test_a_refused_signal_is_told_and_stops_nothing() -> None:
    node = ForeignNode()
    node.rank(100, 0)
    node.plain(101, "sudo", ppid=100, uid=ME + 1)
    node.rank(110, 1)
    node.refused = {101}
    first, second = end(node, Policy(grace=1))
    assert [process.pid for process in first.left] == [101]
    assert "refuses" in first.describe()
    assert second.left == ()
