# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quarantine: a node's note that it needs a reboot before the next launch, void in any other boot session."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._process import Identity, Process, is_same
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import make_private, read_json, remove, write_json


@dataclass(frozen=True)
class Quarantine:
    """Why a node is not fit: processes that the kernel holds. `since` in epoch seconds by the node's clock."""

    boot: str
    since: float
    reason: str
    held: tuple[Identity, ...]

    def describe(self) -> str:
        """Return the reason and the remedy in words."""
        return f"this node is in quarantine: {self.reason}. Reboot it; the quarantine ends with that by itself"


def read_quarantine(places: Places, boot: str) -> Quarantine | None:
    """Return the quarantine of this boot session, or None.

    One that cannot be read counts as one: better a launch too few than ranks beside a process that holds the memory.
    """
    try:
        data = read_json(_path(places))
        held = tuple(Identity(int(one["pid"]), str(one["start"]), str(one["boot"])) for one in data["held"])
        found = Quarantine(str(data["boot"]), float(data["since"]), str(data["reason"]), held)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        return Quarantine(boot, 0.0, f"{_path(places)} cannot be read ({error})", ())
    return found if found.boot == boot else None


def put_in_quarantine(places: Places, boot: str, now: float, run: str, stuck: Sequence[Process]) -> Quarantine:
    """Leave the note that these processes of a run are held by the kernel."""
    earlier = read_quarantine(places, boot)
    held = {one.pid: one for one in (earlier.held if earlier else ())}
    held.update((one.pid, Identity(one.pid, one.start, boot)) for one in stuck)
    words = ", ".join(f"{one.pid} ({one.command})" for one in stuck)
    note = Quarantine(boot, now, f"process {words} of run {run} is held by the kernel", tuple(held.values()))
    make_private(places, places.root)
    write_json(_path(places), asdict(note))
    return note


def lift_quarantine(places: Places, boot: str, table: Mapping[int, Process]) -> bool:
    """Remove the note when it is of another boot session, or when every process that it names is gone; tell whether."""
    note = read_quarantine(places, boot)
    if note is not None and (not note.held or any(is_same(one, table.get(one.pid), boot) for one in note.held)):
        return False
    return remove(_path(places))


def _path(places: Places) -> str:
    return os.path.join(places.root, "quarantine.json")


def as_fact(note: Quarantine | None) -> dict[str, Any] | None:
    """Return plain types, None for no quarantine."""
    return {"since": note.since, "reason": note.reason} if note else None
