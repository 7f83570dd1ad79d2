"""Whatever happens, in whatever order: no rank is unknown, and no signal reaches what is no rank.

Random sequences of launches, teardowns, crashes, reboots, reused pids and damaged records on one node in memory. The
records are real files; only the processes are not.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from ansible_collections.muster.mlx.plugins.module_utils._look import look, snapshot, strays
from ansible_collections.muster.mlx.plugins.module_utils._process import Process
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state
from ansible_collections.muster.mlx.plugins.module_utils._teardown import find, tear_down
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.make import process, put, record
from tests.unit.memory import MemorySystem, ignores

RUNS = ("main", "other")
HOSTS = tuple((f"10.0.0.{number}:1",) for number in range(4))
_DAMAGE = ("delete", "truncate", "garbage", "another's", "directory", "symlink", "other boot", "other start")


class Node(RuleBasedStateMachine):
    """One node. `ranks` are the pids that are truly of a rank, by the rank's marker; everything else is innocent."""

    def __init__(self) -> None:
        """Start with an empty node and its state directory."""
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.places: Places = open_state(self.folder + "/state")
        self.system = MemorySystem(process(1, ppid=0))
        self.ranks: dict[int, str] = {}
        self.pid = 100
        self.ticks = 5000
        self.launched = 0

    def teardown(self) -> None:
        """Remove the state directory."""
        shutil.rmtree(self.folder)

    def born(self, **changes: object) -> Process:
        """Make the next process of this node."""
        self.pid += 1
        self.ticks += 7
        one = process(self.pid, start=str(self.ticks), **changes)
        self.system.add(one)
        return one

    @rule(run=st.sampled_from(RUNS), stubborn=st.booleans())
    def launch(self, run: str, stubborn: bool) -> None:
        """A rank comes up, with its record, as a launch leaves it."""
        self.launched += 1
        instance = f"20261130T2045{self.launched % 60:02d}Z-{self.launched:08x}"
        one = self.born()
        written = record(
            run=run,
            instance=instance,
            rank=self.launched % 4,
            size=4,
            hosts=tuple((f"10.0.0.{i}:1",) for i in range(4)),
        )
        written = replace(written, pid=one.pid, pgid=one.pid, start=one.start, boot=self.system.session)
        put(self.places, written)
        self.system.marks[one.pid] = self.ranks[one.pid] = written.marker
        if stubborn:
            self.system.on(one.pid, 15, ignores)

    @precondition(lambda self: self.ranks)
    @rule(data=st.data(), own_session=st.booleans())
    def fork(self, data: st.DataObject, own_session: bool) -> None:
        """A rank forks a child, perhaps into a session of its own, perhaps to be adopted by init."""
        parent = data.draw(st.sampled_from(sorted(self.ranks)))
        group = self.pid + 1 if own_session else self.system.processes[parent].pgid
        child = self.born(ppid=data.draw(st.sampled_from([1, parent])), pgid=group)
        self.system.marks[child.pid] = self.ranks[child.pid] = self.ranks[parent]

    @precondition(lambda self: self.ranks)
    @rule(data=st.data(), reuse=st.booleans())
    def crash(self, data: st.DataObject, reuse: bool) -> None:
        """A rank's process ends behind Muster's back; its pid may go to an innocent with the same command line."""
        pid = data.draw(st.sampled_from(sorted(self.ranks)))
        dead = self.system.processes[pid]
        self.system.end(pid)
        del self.ranks[pid]
        # The kernel gives no process the number of a group that still has members.
        if reuse and not any(one.pgid == pid for one in self.system.processes.values()):
            self.ticks += 7
            self.system.add(replace(dead, start=str(self.ticks), ppid=1, pgid=pid))

    @rule(keep_pids=st.booleans())
    def reboot(self, keep_pids: bool) -> None:
        """The node boots; afterwards innocents may live under the very same pids, even with the same start."""
        before = dict(self.system.processes)
        for pid in list(before):
            if pid != 1:
                self.system.end(pid)
        self.ranks.clear()
        self.system.session = f"boot-{self.ticks}"
        self.ticks += 1
        for one in before.values():
            if keep_pids and one.pid != 1:
                self.system.add(replace(one, ppid=1, pgid=one.pid))

    @rule(run=st.sampled_from(RUNS), damage=st.sampled_from(_DAMAGE), data=st.data())
    def damage(self, run: str, damage: str, data: st.DataObject) -> None:
        """Somebody spoils a record."""
        written = sorted(Path(self.places.root).glob(f"runs/{run}/*/rank-*/record.json"))
        if not written:
            return
        path = data.draw(st.sampled_from(written))
        others = sorted(Path(self.places.root).glob("runs/*/*/rank-*/record.json"))
        text = path.read_text(errors="replace") if path.is_file() else "{}"
        if path.is_dir() and not path.is_symlink():
            return
        path.unlink()
        if damage == "truncate":
            path.write_text(text[: len(text) // 2])
        elif damage == "garbage":
            path.write_bytes(b"\xff\x00 pid")
        elif damage == "another's":
            other = data.draw(st.sampled_from(others))
            path.write_text(text if other == path else other.read_text(errors="replace") if other.is_file() else "[]")
        elif damage == "directory":
            path.mkdir()
        elif damage == "symlink":
            path.symlink_to(others[0] if others[0] != path else "/etc/passwd")
        elif damage == "other boot":
            path.write_text(text.replace(self.system.session, "another-boot"))
        elif damage == "other start":
            path.write_text(text.replace('"start": "', '"start": "9'))

    @rule(run=st.sampled_from(RUNS), escalate=st.booleans())
    def tear_down(self, run: str, escalate: bool) -> None:
        """A teardown of one run passes."""
        found = find(self.places, run, "", snapshot(self.system))
        before = len(self.system.sent)
        innocent = {pid: one for pid, one in self.system.processes.items() if pid not in self.ranks}
        receipt = tear_down(self.places, run, found, Policy((15,), 1.0, 2.0, escalate), 1.0, 10, self.system)
        for _when, how, target, _number in self.system.sent[before:]:
            assert target not in innocent, f"{how} {target} reached a process that is no rank"
        assert all(self.system.processes.get(pid) == one for pid, one in innocent.items()), (
            "an innocent process is gone"
        )
        self.ranks = {pid: mark for pid, mark in self.ranks.items() if pid in self.system.processes}
        if receipt.verdict == "clean":
            alive = [mark for mark in self.ranks.values() if mark.startswith(run + "/")]
            assert not alive, f"the receipt says clean, and {alive} lives"

    @invariant()
    def every_rank_is_known(self) -> None:
        """A living rank has a believable record that finds it, or is reported as a stray."""
        seen = snapshot(self.system)
        known: set[int] = set()
        for run in RUNS:
            for one in look(self.places, run, seen)[0]:
                known.update(member.pid for member in one.members)
            known.update(stray.pid for stray in strays(self.places, run, seen))
        assert known >= set(self.ranks), f"nobody knows of {set(self.ranks) - known}"
        assert known <= set(self.ranks), f"innocents count as ranks: {known - set(self.ranks)}"


TestNode = Node.TestCase
TestNode.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
