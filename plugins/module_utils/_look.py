# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is there: the ranks of a node as their records and the process table say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._process import Process, System, is_same, members, signal_name
from ansible_collections.muster.mlx.plugins.module_utils._run import Damaged, Exit, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import instances, read_exit, read_manifest, records

TAIL_LINES = 20
_SETTLE = 1.0  # seconds; a supervisor needs milliseconds
_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Snapshot:
    """One reading of a node, from which everything is judged."""

    boot: str
    now: float
    table: Mapping[int, Process]
    markers: Mapping[int, str]


@dataclass(frozen=True)
class Sighting:
    """A recorded rank and what lives of it: `alive` is about the recorded process, `members` are all of its own."""

    record: Record
    exit: Exit | None
    alive: bool
    members: tuple[Process, ...]
    now: float
    boot: str

    @property
    def state(self) -> str:
        """Return `running`, `intended`, `exited 7`, `killed by SIGKILL` or `dead` (it ended and nobody saw how)."""
        if self.alive:
            return "running"
        if self.exit is not None:
            return describe_exit(self.exit)
        return "dead" if self.record.pid or self.record.boot != self.boot else "intended"

    @property
    def finished(self) -> bool:
        """Whether the rank did what it had to: it exited 0."""
        return not self.alive and self.exit is not None and self.exit.code == 0

    def to_json(self, places: Places) -> dict[str, Any]:
        """Return what the roll call shows, as plain types; sizes in bytes, times in seconds."""
        record = self.record
        return {
            "run": record.run,
            "instance": record.instance,
            "rank": record.rank,
            "size": record.size,
            "pid": record.pid,
            "state": self.state,
            "age": max(0.0, round(self.now - record.born, 1)) if record.born and self.alive else None,
            "memory": sum(process.rss for process in self.members) if self.members else None,
            "processes": [process.pid for process in self.members],
            "ports": sorted({int(address.rpartition(":")[2]) for address in record.addresses}),
            "log": log_path(places, record),
            "program": list(record.argv),
        }


def snapshot(system: System) -> Snapshot:
    """Read the node once."""
    table = system.table()
    return Snapshot(system.boot(), system.now(), table, system.markers(table))


def sight(places: Places, record: Record, seen: Snapshot, known: Mapping[int, str] | None = None) -> Sighting:
    """Judge one record by one reading of the node; `known` are processes that an earlier one proved to belong."""
    identity = record.identity
    alive = identity is not None and is_same(identity, seen.table.get(identity.pid), seen.boot)
    belonging = members(identity, record.marker, seen.table, seen.markers, seen.boot, known)
    return Sighting(record, None if alive else read_exit(places, record), alive, tuple(belonging), seen.now, seen.boot)


def look(places: Places, run: str, seen: Snapshot) -> tuple[list[Sighting], list[Damaged]]:
    """Return a run's recorded ranks on this node, and the records that cannot be believed."""
    found = records(places, run)
    sightings = [sight(places, record, seen) for record in found if isinstance(record, Record)]
    return sightings, [record for record in found if isinstance(record, Damaged)]


def settle(places: Places, run: str, system: System) -> tuple[list[Sighting], list[Damaged]]:
    """Look, and look again for a moment while a supervisor is still writing down how its rank ended."""
    deadline = system.monotonic() + _SETTLE
    while True:
        seen = snapshot(system)
        found, damaged = look(places, run, seen)
        if not any(is_ending(one, seen) for one in found) or system.monotonic() > deadline:
            return found, damaged
        system.sleep(0.02)


def is_ending(one: Sighting, seen: Snapshot) -> bool:
    """Tell whether a rank is gone and its supervisor, still there, has not written down how."""
    supervisor = one.record.supervisor
    if one.alive or one.exit is not None or supervisor is None:
        return False
    return is_same(supervisor, seen.table.get(supervisor.pid), seen.boot)


def strays(places: Places, run: str, seen: Snapshot) -> list[Process]:
    """Return the processes that carry the run's marker though no believable record names their rank."""
    known = {record.marker for record in records(places, run) if isinstance(record, Record)}
    # A run of the same name in another state directory is somebody else's, and its instances have no folder here.
    here = tuple(f"{run}/{instance}/" for instance in instances(places, run))
    own = {pid: marker for pid, marker in seen.markers.items() if marker.startswith(here)}
    return [seen.table[pid] for pid, marker in sorted(own.items()) if marker not in known and seen.table[pid].alive]


def kept_work(places: Places, run: str) -> list[str]:
    """Return the working directories of a run that hold something besides Muster's own copies."""
    folders = [places.instance(run, instance) for instance in instances(places, run)]
    return [os.path.join(folder, "work") for folder in folders if _written(folder)]


def _written(folder: str) -> bool:
    copies = read_manifest(folder)
    work = os.path.join(folder, "work")
    return any(
        os.path.relpath(os.path.join(parent, name), work) not in copies
        for parent, dummy, names in os.walk(work)
        for name in names
    )


def describe_exit(exit: Exit) -> str:
    """Return `exited 7` or `killed by SIGKILL`."""
    if exit.signal is not None:
        return f"killed by {signal_name(exit.signal)}"
    return f"exited {exit.code or 0}"


def log_path(places: Places, record: Record) -> str:
    """Return where the rank's output goes."""
    return os.path.join(places.rank(record.run, record.instance, record.rank), "log")


def tail(path: str, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a file, empty when it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []
