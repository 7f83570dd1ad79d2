# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Muster knows about processes, and the one door through which it looks at them and signals them.

Everything here is plain data and pure functions but for the Protocol, whose real implementations
are in `_linux` and `_macos`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

MARKER = "MUSTER_RANK"
"""Environment variable of every rank: `<run>/<instance>/<rank>`. Children inherit it, whatever session they move to."""

RANK_NAMES = ("MLX_RANK", "MLX_HOSTFILE", "MLX_IBV_DEVICES", "SSH_CONNECTION", MARKER)
"""The only environment names whose values Muster reads of a process: others may hold what nobody should see."""


@dataclass(frozen=True)
class Identity:
    """Who a process is, for longer than its pid is its own.

    `start` is fixed at fork: on Linux the start ticks of `/proc/<pid>/stat` (field 22, proc(5)), on
    macOS `ps -o lstart=` in the C locale and UTC. `boot` is the boot session: Linux
    `/proc/sys/kernel/random/boot_id`, macOS `sysctl -n kern.bootsessionuuid`.
    """

    pid: int
    start: str
    boot: str


@dataclass(frozen=True)
class Process:
    """One line of the process table. `state` is the first letter that the system gives, `rss` is in bytes."""

    pid: int
    ppid: int
    pgid: int
    uid: int
    state: str
    start: str
    rss: int
    command: str

    @property
    def alive(self) -> bool:
        """Whether it can still run, hold memory or a port. A zombie cannot; it only waits for its parent."""
        return self.state not in ("Z", "X")

    @property
    def uninterruptible(self) -> bool:
        """Whether the kernel holds it where no signal reaches it (`D` on Linux, `U` on macOS)."""
        return self.state in ("D", "U")


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket; `pid` and `command` are empty where another user's process holds it."""

    address: str
    port: int
    pid: int | None
    command: str


class System(Protocol):
    """The door to one node. Every method that looks raises `MusterError` where it could not look at all."""

    def boot(self) -> str:
        """Return the boot session's id."""

    def table(self) -> dict[int, Process]:
        """Return every visible process by pid."""

    def process(self, pid: int) -> Process | None:
        """Return one process, or None when there is none of that pid."""

    def markers(self, table: Mapping[int, Process]) -> dict[int, str]:
        """Return the value of MARKER for every process of this user that carries it and can be read."""

    def environments(self, table: Mapping[int, Process]) -> dict[int, dict[str, str]]:
        """Return those of RANK_NAMES that each process of this user was started with.

        A process whose environment cannot be read is missing, so that it is not mistaken for one that has none of them.
        """

    def arguments(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Return, per pid, the words of its command line, empty when it is gone or cannot be read."""

    def age(self, process: Process) -> float | None:
        """Return the seconds since a process was started, None when that cannot be told."""

    def open_files(self, paths: Iterable[str]) -> dict[str, list[int]]:
        """Return, for each of these absolute real paths that is open, the visible processes that have it open."""

    def connections(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Return, per pid, the remote `ip:port` of its established TCP connections."""

    def endpoints(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Return, per pid, the `ip:port` of this node's end of its established TCP connections."""

    def listeners(self) -> list[Listener]:
        """Return the listening TCP sockets of this node."""

    def temporary(self) -> list[str]:
        """Return the directories in which `mktemp` makes its files, besides the one that $TMPDIR names."""

    def wired(self) -> int | None:
        """Return the bytes of memory that the kernel cannot move (macOS), None where there is no such figure."""

    def kill(self, pid: int, number: int) -> bool:
        """Send a signal to a process; False when it was gone already."""

    def killpg(self, pgid: int, number: int) -> bool:
        """Send a signal to a process group; False when it was gone already."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch."""

    def monotonic(self) -> float:
        """Return a clock that never goes back, in seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


def is_same(identity: Identity, process: Process | None, boot: str) -> bool:
    """Tell whether what lives under the recorded pid now is the recorded process itself."""
    return (
        process is not None
        and boot == identity.boot
        and process.pid == identity.pid
        and process.start == identity.start
        and process.alive
    )


def members(
    identity: Identity | None,
    marker: str,
    table: Mapping[int, Process],
    markers: Mapping[int, str],
    boot: str,
    known: Mapping[int, str] | None = None,
) -> list[Process]:
    """Return every live process that belongs to one rank, its own process first.

    A process belongs when it is the recorded one, a descendant of one that belongs, in the process
    group that the recorded one leads, or carries the rank's marker. The group alone proves nothing
    once its leader is gone: the number may have been given to a stranger, so then only the marker counts,
    and `known`: pid → start of processes that an earlier look in this boot session proved to belong.
    """
    leader = table.get(identity.pid) if identity else None
    found: dict[int, Process] = {}
    if identity and leader is not None and is_same(identity, leader, boot):
        found[leader.pid] = leader
        found.update((p.pid, p) for p in table.values() if p.pgid == leader.pid and p.alive)
    found.update((pid, table[pid]) for pid, value in markers.items() if value == marker and table[pid].alive)
    for pid, start in (known or {}).items():
        if pid in table and table[pid].start == start and table[pid].alive:
            found[pid] = table[pid]
    growing = True
    while growing:
        children = {p.pid: p for p in table.values() if p.ppid in found and p.pid not in found and p.alive}
        found.update(children)
        growing = bool(children)
    return sorted(found.values(), key=lambda p: (identity is None or p.pid != identity.pid, p.pid))


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9; numbers without a name come back as `signal 99`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
