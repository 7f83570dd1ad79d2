"""A node in memory behind the System protocol: a virtual clock, and processes that react to signals as a test says."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER, Listener, Process, System

from tests.unit.make import BOOT

Reaction = Callable[["MemorySystem", int], None]
"""What a process does when a signal is delivered to it: gets the node and its own pid."""


class MemorySystem:
    """The node. What the kernel decides is not up to a test: SIGKILL ends all but a process in uninterruptible sleep.

    Without a reaction a signal ends its process at once. A stopped process keeps signals until SIGCONT.
    `sent` is every signal that was sent: (seconds, `kill` or `killpg`, target, number).
    """

    def __init__(self, *processes: Process, markers: Mapping[int, str] | None = None) -> None:
        """Start with these processes; `markers` says which of them carry a rank's marker in their environment."""
        self.processes = {process.pid: process for process in processes}
        self.marks = dict(markers or {})
        self.reactions: dict[tuple[int, int], Reaction] = {}
        self.pending: dict[int, list[int]] = {}
        self.sent: list[tuple[float, str, int, int]] = []
        self.after_look: list[Callable[[], object]] = []
        self.refused: set[int] = set()
        self.remotes: dict[int, list[str]] = {}
        self.sockets: list[Listener] = []
        self.session = BOOT
        self.wall = 1_000_000.0
        self.clock = 0.0
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def boot(self) -> str:
        """See System."""
        return self.session

    def table(self) -> dict[int, Process]:
        """Return the processes as they are now; afterwards what a test wants to happen right after a look happens."""
        seen = dict(self.processes)
        if self.after_look:
            self.after_look.pop(0)()
        return seen

    def process(self, pid: int) -> Process | None:
        """See System."""
        return self.processes.get(pid)

    def markers(self, table: Mapping[int, Process]) -> dict[int, str]:
        """See System."""
        return {pid: mark for pid, mark in self.marks.items() if pid in table and table[pid].alive}

    def environments(self, table: Mapping[int, Process]) -> dict[int, dict[str, str]]:
        """See System; here the environment holds a marker at most."""
        return {pid: {MARKER: mark} for pid, mark in self.markers(table).items()}

    def arguments(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """See System."""
        return {pid: self.processes[pid].command.split() if pid in self.processes else [] for pid in pids}

    def age(self, process: Process) -> float | None:
        """See System; start times are no times here."""
        return None

    def open_files(self, paths: Iterable[str]) -> dict[str, list[int]]:
        """See System; nobody has a file open."""
        return {}

    def endpoints(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """See System; nobody is connected but to `remotes`."""
        return {pid: [] for pid in pids}

    def temporary(self) -> list[str]:
        """See System."""
        return []

    def connections(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """See System."""
        return {pid: self.remotes.get(pid, []) for pid in pids}

    def listeners(self) -> list[Listener]:
        """See System."""
        return [socket for socket in self.sockets if socket.pid is None or socket.pid in self.processes]

    def wired(self) -> int | None:
        """See System."""
        return None

    def kill(self, pid: int, number: int) -> bool:
        """See System."""
        self.sent.append((round(self.clock, 3), "kill", pid, number))
        return self._send([pid] if pid in self.processes else [], number)

    def killpg(self, pgid: int, number: int) -> bool:
        """See System."""
        self.sent.append((round(self.clock, 3), "killpg", pgid, number))
        return self._send([one.pid for one in self.processes.values() if one.pgid == pgid], number)

    def now(self) -> float:
        """Return a wall clock that a test may set."""
        return self.wall + self.clock

    def monotonic(self) -> float:
        """See System."""
        return self.clock

    def sleep(self, seconds: float) -> None:
        """Let time pass, with all that is due in it."""
        assert self.clock < 1e5, "whoever waits here waits for ever"
        until = self.clock + seconds
        while self._agenda and self._agenda[0][0] <= until:
            self.clock, _order, event = heappop(self._agenda)
            event()
        self.clock = until

    # What a test says

    def on(self, pid: int, number: int, reaction: Reaction) -> None:
        """Say how a process takes a signal."""
        self.reactions[pid, number] = reaction

    def at(self, seconds: float, event: Callable[[], object]) -> None:
        """Let something happen at a time of the monotonic clock."""
        heappush(self._agenda, (seconds, next(self._order), event))

    def change(self, pid: int, **changes: object) -> None:
        """Change what the table says of a process, if it is still there."""
        if pid in self.processes:
            self.processes[pid] = replace(self.processes[pid], **changes)  # type: ignore[arg-type]

    def end(self, pid: int) -> None:
        """Let a process end; init adopts its children."""
        self.processes.pop(pid, None)
        self.marks.pop(pid, None)
        for child in [one.pid for one in self.processes.values() if one.ppid == pid]:
            self.change(child, ppid=1)

    def add(self, process: Process, mark: str = "") -> None:
        """Let a process be born."""
        self.processes[process.pid] = process
        if mark:
            self.marks[process.pid] = mark

    def signals(self, pid: int) -> list[str]:
        """Return the names of all signals that were sent to a process or group."""
        return [signal.Signals(number).name for _when, _how, target, number in self.sent if target == pid]

    def _send(self, pids: list[int], number: int) -> bool:
        if pids and self.refused.issuperset(pids):
            raise MusterError(f"Process {pids[0]} should get signal {number}", "the system refuses it")
        for pid in pids:
            if pid not in self.refused:
                self._deliver(pid, number)
        return bool(pids)

    def _deliver(self, pid: int, number: int) -> None:
        state = self.processes[pid].state
        if state in ("D", "U") or (state == "T" and number not in (signal.SIGKILL, signal.SIGCONT)):
            self.pending.setdefault(pid, []).append(number)
        elif number == signal.SIGCONT:
            self.change(pid, state="S")
            for one in self.pending.pop(pid, []):
                self._deliver(pid, one)
        elif number == signal.SIGKILL or (pid, number) not in self.reactions:
            self.end(pid)
        else:
            self.reactions[pid, number](self, pid)


def ignores(_node: MemorySystem, _pid: int) -> None:
    """Take no notice."""


def ends_after(seconds: float) -> Reaction:
    """Clean up for some seconds, then end."""
    return lambda node, pid: node.at(node.clock + seconds, lambda: node.end(pid))


_CONFORMS: type[System] = MemorySystem
