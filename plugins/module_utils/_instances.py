# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Muster's own leftovers: instances of any run whose ranks are gone, and whose records and files are still there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._finding import KEEP, REMOVE, Finding
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, Snapshot, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import System, is_same
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import instances, lock, runs
from ansible_collections.muster.mlx.plugins.module_utils._teardown import Found, find, tear_down

OWNER = "muster"

_STARTING = 60.0  # seconds; from its record to its birth a rank needs milliseconds
_NO_SIGNAL = Policy(signals=(), grace=0.0, grace_max=0.0, escalate=False)


@dataclass(frozen=True)
class Instance:
    """One instance that left something, and what was decided about it."""

    run: str
    name: str
    finding: Finding


def find_instances(places: Places, seen: Snapshot) -> list[Instance]:
    """Return every instance that has records or files that a teardown would remove, with the decision about it."""
    return [
        Instance(run, name, finding)
        for run in runs(places)
        for name in instances(places, run)
        for finding in _judge(places, run, name, seen)
    ]


def _judge(places: Places, run: str, name: str, seen: Snapshot) -> list[Finding]:
    found = find(places, run, name, seen)
    if not found.anything and not found.damaged:
        return []
    folder = places.instance(run, name)
    reason = _why_kept(run, name, found, seen) or _why_young(folder, found, seen.now)
    gone = "its ranks are gone" if found.ranks else "none of its ranks was ever started"
    return [Finding(OWNER, KEEP if reason else REMOVE, reason or gone, path=folder)]


def _why_kept(run: str, name: str, found: Found, seen: Snapshot) -> str:
    if found.damaged:
        return f"a record cannot be believed: {found.damaged[0].path} ({found.damaged[0].reason})"
    for one in found.ranks:
        if one.members:
            return f"process {one.members[0].pid} of rank {one.record.rank} lives"
        if _has_supervisor(one, seen):
            return f"the supervisor of rank {one.record.rank} is still at work"
        # Intended in this boot session: its supervisor may be about to fork it.
        if one.state == "intended" and seen.now - one.record.created < _STARTING:
            return f"rank {one.record.rank} is being started"
    carriers = [pid for pid, marker in seen.markers.items() if marker.startswith(f"{run}/{name}/")]
    return f"process {carriers[0]} carries its marker" if carriers else ""


def _why_young(folder: str, found: Found, now: float) -> str:
    # Before the first record there are only files, for as long as it takes to unpack mlx_files.
    try:
        fresh = not found.ranks and now - os.stat(folder).st_mtime < _STARTING
    except FileNotFoundError:
        return ""
    return "it is being made" if fresh else ""


def _has_supervisor(one: Sighting, seen: Snapshot) -> bool:
    supervisor = one.record.supervisor
    return supervisor is not None and is_same(supervisor, seen.table.get(supervisor.pid), seen.boot)


def remove_instances(
    places: Places, found: Sequence[Instance], keep: int, system: System
) -> tuple[list[str], list[Finding], list[str]]:
    """Remove what can be made anew of the instances to remove: records, coordination files, copies.

    Returns the files removed, decisions that came out otherwise, and problems in words. No process is signalled: an
    instance that a launch or a teardown is at work on, or that lives after all, is kept.
    """
    removed: list[str] = []
    changed: list[Finding] = []
    problems: list[str] = []
    for one in found:
        if one.finding.action != REMOVE:
            continue
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(lock(places, "launch-" + one.run, 0))
                held.enter_context(lock(places, "teardown-" + one.run, 0))
            except MusterError:
                words = f"a launch or a teardown of run {one.run} is at work"
                changed.append(Finding(OWNER, KEEP, words, path=one.finding.path))
                continue
            seen = snapshot(system)
            again = _judge(places, one.run, one.name, seen)
            if not again or again[0].action != REMOVE:
                changed += again
                continue
            left = find(places, one.run, one.name, seen)
            removed += tear_down(places, one.run, left, _NO_SIGNAL, seen.now, keep, system).files_removed
            problems += [
                f"{path} could not be removed" for path in find(places, one.run, one.name, snapshot(system)).files
            ]
    return removed, changed, problems
