# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be left over on a node, read once: files first, then processes, then records.

The order is what makes it safe. A pid file's process lived when the file was written, so one that the process table
lacks afterwards is gone. A rank's record was there before the rank, so a process that has none afterwards is foreign.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.muster.mlx.plugins.module_utils._finding import END, KEEP, Finding
from ansible_collections.muster.mlx.plugins.module_utils._foreign import (
    ForeignRank,
    Scene,
    Wanted,
    decide_foreign,
    find_foreign,
)
from ansible_collections.muster.mlx.plugins.module_utils._instances import OWNER, Instance, find_instances
from ansible_collections.muster.mlx.plugins.module_utils._launchers import (
    ancestors,
    is_exo,
    launcher_of,
    ssh_clients,
    with_clients,
)
from ansible_collections.muster.mlx.plugins.module_utils._look import Snapshot, look
from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER, Process, System
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._stale import Evidence, decide, pid_of
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import instances, runs
from ansible_collections.muster.mlx.plugins.module_utils._temporary import EXO, Entry, places_of, read_folder

_COMMAND = 200  # letters of a command line that are shown


@dataclass(frozen=True)
class Scope:
    """Where to look: whose leftovers, directories besides the temporary ones, and what other machines said of their
    ssh clients."""

    owners: Collection[str]
    directories: Sequence[str]
    clients: Mapping[str, str]


@dataclass(frozen=True)
class View:
    """One reading of a node. `barred` are directories that could not be looked at; `own` tells which recorded rank of
    Muster a process belongs to."""

    entries: tuple[Entry, ...]
    barred: tuple[Finding, ...]
    instances: tuple[Instance, ...]
    foreign: tuple[ForeignRank, ...]
    evidence: Evidence
    own: Mapping[int, str]
    clients: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """What to do: every decision, and from them the files, instances and foreign ranks to act on."""

    findings: tuple[Finding, ...]
    ranks: tuple[ForeignRank, ...]

    def files(self, view: View, action: str) -> list[Entry]:
        """Return the files with that decision."""
        chosen = {one.path for one in self.findings if one.action == action}
        return [entry for entry in view.entries if entry.path in chosen]


def read(places: Places, scope: Scope, system: System) -> View:
    """Read the node once."""
    entries, barred = _files(scope, system)
    table = system.table()
    environments = system.environments(table)
    markers = {pid: names[MARKER] for pid, names in environments.items() if MARKER in names}
    snapshot = Snapshot(system.boot(), system.now(), table, markers)
    own, recorded = _recorded(places, snapshot)
    scene = Scene(
        boot=snapshot.boot,
        uid=os.geteuid(),
        table=table,
        environments=environments,
        ages=_ages(table, environments, entries, system),
        own=own,
        recorded=recorded,
        here=_here(table),
        now=snapshot.now,
        root=places.root,
        instances={f"{name}/{instance}" for name in runs(places) for instance in instances(places, name)},
    )
    foreign = _launched(find_foreign(scene, entries), table, scope.clients, system)
    return View(
        entries=tuple(entries),
        barred=tuple(barred),
        instances=tuple(find_instances(places, snapshot)) if OWNER in scope.owners else (),
        foreign=tuple(foreign),
        evidence=_evidence(scene, entries, {**own, **_named(foreign)}, system),
        own=own,
        clients=ssh_clients(system, table, os.geteuid()),
    )


def plan(view: View, wanted: Wanted) -> Plan:
    """Decide about everything that was seen. Pure.

    The files are judged as they will be once the foreign ranks that are to be ended are gone.
    """
    decided = decide_foreign(view.foreign, wanted)
    ranks = tuple(one for one, finding in zip(view.foreign, decided) if finding.action == END)
    findings = [
        *(one.finding for one in view.instances),
        *view.barred,
        *decide(view.entries, without(view, ranks)),
        *decided,
    ]
    return Plan(tuple(findings), ranks)


def without(view: View, ranks: Sequence[ForeignRank]) -> Evidence:
    """Return the evidence as it is when these ranks are gone."""
    gone = {process.pid for one in ranks for process in one.processes}
    seen = view.evidence
    return replace(
        seen,
        processes={pid: process for pid, process in seen.processes.items() if pid not in gone},
        names={pid: names for pid, names in seen.names.items() if pid not in gone},
        held={path: left for path, pids in seen.held.items() if (left := [pid for pid in pids if pid not in gone])},
        freed=seen.freed | {os.path.basename(one.coordination) for one in ranks if one.coordination},
    )


def _files(scope: Scope, system: System) -> tuple[list[Entry], list[Finding]]:
    entries: list[Entry] = []
    barred = []
    owners = [owner for owner in scope.owners if owner != OWNER]
    for folder in places_of(os.environ, system, scope.directories) if owners else []:
        found, problem = read_folder(folder)
        entries += [one for one in found if one.owner in owners]
        barred += [Finding("unknown", KEEP, problem, path=folder)] if problem else []
    return entries, barred


def _recorded(places: Places, seen: Snapshot) -> tuple[dict[int, str], set[str]]:
    own: dict[int, str] = {}
    recorded: set[str] = set()
    for run in runs(places):
        for one in look(places, run, seen)[0]:
            recorded.add(one.record.marker)
            own.update({process.pid: f"rank {one.record.rank} of run {run}" for process in one.members})
    return own, recorded


def _ages(
    table: Mapping[int, Process],
    environments: Mapping[int, Mapping[str, str]],
    entries: Sequence[Entry],
    system: System,
) -> dict[int, float | None]:
    wanted = {pid for pid, names in environments.items() if "MLX_RANK" in names or MARKER in names}
    wanted |= {pid for entry in entries if (pid := pid_of(entry)) is not None}
    return {pid: system.age(table[pid]) for pid in wanted if pid in table}


def _here(table: Mapping[int, Process]) -> set[int]:
    me = table.get(os.getpid())
    return {os.getpid(), *(one.pid for one in ancestors(me, table))} if me else {os.getpid()}


def _launched(
    found: Sequence[ForeignRank], table: Mapping[int, Process], clients: Mapping[str, str], system: System
) -> list[ForeignRank]:
    parents = {process.pid for one in found for process in ancestors(one.leader, table)}
    words = system.arguments({1, *parents, *(one.leader.pid for one in found)}) if found else {}
    return [
        replace(
            one,
            launcher=with_clients(launcher_of(one.leader, table, words, one.connection), clients),
            command=" ".join(words[one.leader.pid])[:_COMMAND] or one.leader.command,
        )
        for one in found
    ]


def _named(foreign: Sequence[ForeignRank]) -> dict[int, str]:
    return {process.pid: one.describe() for one in foreign for process in one.processes}


def _evidence(scene: Scene, entries: Sequence[Entry], ranks: Mapping[int, str], system: System) -> Evidence:
    plain = [entry.path for entry in entries if not entry.odd]
    names = {
        pid: frozenset(
            os.path.basename(environment[name]) for name in ("MLX_HOSTFILE", "MLX_IBV_DEVICES") if environment.get(name)
        )
        for pid, environment in scene.environments.items()
    }
    return Evidence(
        now=scene.now,
        processes={pid: process for pid, process in scene.table.items() if process.alive},
        names=names,
        ranks=ranks,
        held=system.open_files(plain) if plain else {},
        exo_since=_exo_since(scene, system) if any(entry.owner == EXO for entry in entries) else None,
    )


def _exo_since(scene: Scene, system: System) -> float | None:
    mine = [pid for pid, process in scene.table.items() if process.uid == scene.uid and process.alive]
    ages = [
        system.age(scene.table[pid])
        for pid, words in system.arguments(mine).items()
        if is_exo(words) and pid not in scene.here
    ]
    if not ages:
        return None
    # One whose age cannot be told may be as old as any file.
    return min(0.0 if age is None else scene.now - age for age in ages)
