"""Who a process is, and which processes belong to a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._process import Process, is_same, members, signal_name
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.make import BOOT, IDENTITY, INSTANCE, MARK, process

OTHER = f"main/{INSTANCE}/1"


@pytest.mark.parametrize(
    ("seen", "boot", "same"),
    [
        pytest.param(process(), BOOT, True, id="itself"),
        pytest.param(process(command="renamed", rss=0, ppid=7), BOOT, True, id="under another name and parent"),
        pytest.param(process(state="D"), BOOT, True, id="in uninterruptible sleep"),
        pytest.param(process(state="T"), BOOT, True, id="stopped"),
        pytest.param(None, BOOT, False, id="nobody"),
        pytest.param(process(start="5001"), BOOT, False, id="pid reused, command line the same"),
        pytest.param(process(), "another-boot", False, id="after a reboot, all else the same"),
        pytest.param(process(pid=101), BOOT, False, id="another pid"),
        pytest.param(process(state="Z"), BOOT, False, id="zombie"),
        pytest.param(process(state="X"), BOOT, False, id="dead"),
    ],
)
def test_is_same(seen: Process | None, boot: str, same: bool) -> None:
    assert is_same(IDENTITY, seen, boot) is same


LEADER = process()
CHILD = process(101, ppid=100, pgid=100, start="5050")
MOVED = process(102, ppid=100, pgid=102, start="5060")  # in a session of its own
LOST = process(103, ppid=1, pgid=103, start="5070")  # and its parent is gone
STRANGER = process(200, start="4000")


@pytest.mark.parametrize(
    ("table", "marked", "expected"),
    [
        pytest.param([LEADER, STRANGER], {}, [100], id="leader alone"),
        pytest.param([CHILD, LEADER], {}, [100, 101], id="child in the group"),
        pytest.param([LEADER, replace(CHILD, ppid=1)], {}, [100, 101], id="orphan in the group of a living leader"),
        pytest.param([MOVED, LEADER], {}, [100, 102], id="child in a session of its own"),
        pytest.param(
            [LEADER, MOVED, process(104, ppid=102)], {}, [100, 102, 104], id="grandchild by way of another session"
        ),
        pytest.param(
            [process(104, ppid=105), process(105, ppid=106), process(106, ppid=100), LEADER],
            {},
            [100, 104, 105, 106],
            id="long line of descent, youngest first in the table",
        ),
        pytest.param([LEADER, LOST], {103: MARK}, [100, 103], id="orphan in another session, by its marker"),
        pytest.param([LEADER, LOST], {103: OTHER}, [100], id="marker of another rank"),
        pytest.param([LEADER, LOST], {103: MARK + "0"}, [100], id="marker that starts alike"),
        pytest.param([LOST, process(99, ppid=103)], {103: MARK}, [99, 103], id="leader gone, child of a marked orphan"),
        pytest.param([CHILD], {}, [], id="leader gone, its group's number alone proves nothing"),
        pytest.param([CHILD], {101: MARK}, [101], id="leader gone, marked child"),
        pytest.param(
            [replace(LEADER, start="9999"), replace(CHILD, start="9999")],
            {},
            [],
            id="pid and group reused by a stranger",
        ),
        pytest.param(
            [replace(LEADER, start="9999"), CHILD], {101: MARK}, [101], id="pid reused, the marked child is still ours"
        ),
        pytest.param([replace(LEADER, state="Z"), CHILD], {}, [], id="leader a zombie"),
        pytest.param([LEADER, replace(CHILD, state="Z")], {}, [100], id="zombie child"),
        pytest.param([LEADER, replace(LOST, state="Z")], {103: MARK}, [100], id="marked zombie"),
        pytest.param([process(50, ppid=100), LEADER], {}, [100, 50], id="its own process first, whatever the pids"),
        pytest.param([], {}, [], id="empty table"),
    ],
)
def test_members(table: Sequence[Process], marked: dict[int, str], expected: list[int]) -> None:
    found = members(IDENTITY, MARK, {one.pid: one for one in table}, marked, BOOT)
    assert [one.pid for one in found] == expected


def test_members_after_a_reboot_are_those_with_the_marker() -> None:
    table = {one.pid: one for one in (LEADER, CHILD, LOST)}
    assert members(IDENTITY, MARK, table, {}, "another-boot") == []
    assert members(IDENTITY, MARK, table, {103: MARK}, "another-boot") == [LOST]


def test_members_of_an_intended_rank_are_those_with_the_marker() -> None:
    table = {one.pid: one for one in (LEADER, CHILD, LOST)}
    assert members(None, MARK, table, {}, BOOT) == []
    assert members(None, MARK, table, {101: MARK}, BOOT) == [CHILD]


@given(
    st.dictionaries(
        st.integers(2, 12),
        st.builds(
            lambda ppid, pgid, state, start: process(2, ppid=ppid, pgid=pgid, state=state, start=start),
            st.integers(1, 12),
            st.integers(2, 12),
            st.sampled_from("RSDTZ"),
            st.sampled_from(["5000", "6000"]),
        ),
    ),
    st.sets(st.integers(2, 12)),
)
def test_members_are_alive_and_each_has_a_reason(drawn: dict[int, Process], marked: set[int]) -> None:
    """Whatever the table: none twice, none dead, none without the leader, its group, the marker or such a parent."""
    table = {pid: replace(one, pid=pid) for pid, one in drawn.items()}
    leader = replace(IDENTITY, pid=5)
    markers = {pid: MARK for pid in marked if pid in table}
    found = members(leader, MARK, table, markers, BOOT)
    pids = [one.pid for one in found]
    led = is_same(leader, table.get(5), BOOT)
    assert len(pids) == len(set(pids))
    assert all(one.alive for one in found)
    assert not led or pids[0] == 5
    for one in found:
        assert (led and 5 in (one.pid, one.pgid)) or one.pid in markers or one.ppid in pids


@pytest.mark.parametrize(
    ("state", "alive", "stuck"),
    [
        ("R", True, False),
        ("T", True, False),
        ("D", True, True),
        ("U", True, True),
        ("Z", False, False),
        ("X", False, False),
    ],
)
def test_what_a_state_means(state: str, alive: bool, stuck: bool) -> None:
    one = process(state=state)
    assert (one.alive, one.uninterruptible) == (alive, stuck)


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (15, "SIGTERM"), (0, "signal 0"), (99, "signal 99")])
def test_signal_name(number: int, name: str) -> None:
    assert signal_name(number) == name
