# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Foreign ranks: living MLX ranks that no Muster record names. Finding them and deciding about them is pure.

Records are read after the processes, so that a rank that a launch is just starting is not mistaken for a foreign one:
its record was there before it was.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._finding import END, REPORT, Finding
from ansible_collections.muster.mlx.plugins.module_utils._launchers import ALIVE, GONE, UNKNOWN, Launcher
from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER, Identity, Process, members
from ansible_collections.muster.mlx.plugins.module_utils._stale import pid_of
from ansible_collections.muster.mlx.plugins.module_utils._temporary import MLX_LAUNCH, Entry

MUSTER, UNKNOWN_OWNER = "muster", "unknown"

_MUSTER_FILE = re.compile(r"(/.+)/runs/[^/]+/[^/]+/rank-\d+/hosts-[^/]+\.json\Z")
_BEFORE, _AFTER = 2.0, 30.0  # seconds; a pid file is written by the process that it names, shortly after its start


@dataclass(frozen=True)
class Scene:
    """What foreign ranks are found in: the living processes with their environments, and who is Muster's own.

    `own` are the processes of recorded ranks, `recorded` the markers that believable records name, `here` this very
    process and its ancestors, which are never anybody's rank. `root` is the state directory of this call, `instances`
    are those (as `run/instance`) that have a folder in it.
    """

    boot: str
    uid: int
    table: Mapping[int, Process]
    environments: Mapping[int, Mapping[str, str]]
    ages: Mapping[int, float | None]
    own: Collection[int]
    recorded: Collection[str]
    here: Collection[int]
    now: float
    root: str
    instances: Collection[str]


NOT_LOOKED_FOR = Launcher(UNKNOWN, "not looked for")


@dataclass(frozen=True)
class ForeignRank:
    """A foreign rank. `processes` are all of its own, the leader first; `key` tells it from others for its whole life.

    `sure` tells that it is a rank beyond doubt, and not of Muster in another state directory, where it may well have a
    record: only then is it ended without being named.
    """

    key: tuple[str, ...]
    processes: tuple[Process, ...]
    rank: str
    coordination: str
    owner: str
    pid_file: str
    age: float | None
    sure: bool
    connection: str
    launcher: Launcher = NOT_LOOKED_FOR
    command: str = ""

    @property
    def leader(self) -> Process:
        """The process that the launcher started."""
        return self.processes[0]

    def describe(self) -> str:
        """Return it in a few words."""
        owner = {MUSTER: "of Muster, record lost", MLX_LAUNCH: "of mlx.launch"}.get(
            self.owner, "of an unknown launcher"
        )
        return f"foreign rank {self.rank or '?'} {owner}"

    def to_json(self) -> dict[str, Any]:
        """Return what the module shows, as plain types; sizes in bytes, times in seconds."""
        return {
            "pid": self.leader.pid,
            "rank": int(self.rank) if self.rank.isdigit() else None,
            "owner": self.owner,
            "launcher": self.launcher.state,
            "launched_by": self.launcher.words,
            "endpoint": self.launcher.endpoint,
            "age": None if self.age is None else round(self.age, 1),
            "memory": sum(process.rss for process in self.processes),
            "processes": [process.pid for process in self.processes],
            "command": self.command or self.leader.command,
            "coordination": self.coordination,
            "pid_file": self.pid_file,
        }


def find_foreign(scene: Scene, entries: Sequence[Entry]) -> list[ForeignRank]:
    """Return the foreign ranks, by pid."""
    carriers = {
        pid
        for pid, environment in scene.environments.items()
        if _is_candidate(pid, scene)
        and ("MLX_RANK" in environment or MARKER in environment)
        and environment.get(MARKER) not in scene.recorded
    }
    pid_files = {pid: entry for entry in entries if (pid := pid_of(entry)) is not None}
    groups: dict[tuple[str, ...], list[Process]] = {}
    for pid in sorted(carriers):
        groups.setdefault(_key(pid, carriers, scene), []).append(scene.table[pid])
    found = [_rank(key, processes, pid_files, scene) for key, processes in groups.items()]
    taken = {process.pid for one in found for process in one.processes}
    found += [_hidden(pid, entry, scene) for pid, entry in pid_files.items() if _is_hidden(pid, entry, taken, scene)]
    return sorted(
        (one for one in found if not {process.pid for process in one.processes} & set(scene.here)),
        key=lambda one: one.leader.pid,
    )


def _is_candidate(pid: int, scene: Scene) -> bool:
    process = scene.table.get(pid)
    return process is not None and process.alive and process.uid == scene.uid and pid not in scene.own


def _key(pid: int, carriers: Collection[int], scene: Scene) -> tuple[str, ...]:
    """Return what a rank's processes have in common: children inherit it, whatever session they move to."""
    environment = scene.environments[pid]
    if MARKER in environment:
        return (MARKER, environment[MARKER])
    coordination = coordination_of(environment)
    if coordination:
        return ("MLX_RANK", environment["MLX_RANK"], coordination)
    top = scene.table[pid]
    seen = {pid}
    while top.ppid in carriers and top.ppid not in seen and not coordination_of(scene.environments[top.ppid]):
        top = scene.table[top.ppid]
        seen.add(top.pid)
    return ("process", str(top.pid), top.start)


def coordination_of(environment: Mapping[str, str]) -> str:
    """Return the path of the coordination file that an environment names, empty when it names none."""
    return environment.get("MLX_HOSTFILE") or environment.get("MLX_IBV_DEVICES") or ""


def _rank(
    key: tuple[str, ...], processes: Sequence[Process], pid_files: Mapping[int, Entry], scene: Scene
) -> ForeignRank:
    numbers = {process.pid for process in processes}
    leader = min(processes, key=lambda one: (one.pid not in pid_files, one.ppid in numbers, one.pid))
    known = {process.pid: process.start for process in processes}
    identity = Identity(leader.pid, leader.start, scene.boot)
    environment = scene.environments[leader.pid]
    coordination, pid_file = coordination_of(environment), _fitting(pid_files.get(leader.pid), leader.pid, scene)
    marked = MARKER in environment
    made_by_mktemp = os.path.basename(coordination).startswith("tmp.")
    return ForeignRank(
        key=key,
        processes=tuple(members(identity, "", scene.table, {}, scene.boot, known)),
        rank=environment.get("MLX_RANK", ""),
        coordination=coordination,
        owner=MUSTER if marked else MLX_LAUNCH if pid_file or made_by_mktemp else UNKNOWN_OWNER,
        pid_file=pid_file,
        age=scene.ages.get(leader.pid),
        sure=_is_ours(environment, scene) if marked else "MLX_RANK" in environment and bool(coordination or pid_file),
        connection=environment.get("SSH_CONNECTION", ""),
    )


def _is_ours(environment: Mapping[str, str], scene: Scene) -> bool:
    """Tell whether a rank of Muster belongs to this state directory: by its instance's folder, or by the place of its
    coordination file when that folder is gone."""
    match = _MUSTER_FILE.match(coordination_of(environment))
    instance = environment[MARKER].rpartition("/")[0]
    return instance in scene.instances or (match is not None and match[1] == scene.root)


def _fitting(entry: Entry | None, pid: int, scene: Scene) -> str:
    """Return the pid file's path when the process that it names can have written it, else nothing."""
    age = scene.ages.get(pid)
    if entry is None or age is None:
        return ""
    started = scene.now - age
    return entry.path if started - _BEFORE <= entry.modified <= started + _AFTER else ""


def _is_hidden(pid: int, entry: Entry, taken: Collection[int], scene: Scene) -> bool:
    """Tell whether a pid file's process may be a rank whose environment cannot be read."""
    unread = _is_candidate(pid, scene) and pid not in taken and pid not in scene.environments
    return unread and bool(_fitting(entry, pid, scene))


def _hidden(pid: int, entry: Entry, scene: Scene) -> ForeignRank:
    leader = scene.table[pid]
    identity = Identity(pid, leader.start, scene.boot)
    return ForeignRank(
        key=("process", str(pid), leader.start),
        processes=tuple(members(identity, "", scene.table, {}, scene.boot)),
        rank="",
        coordination="",
        owner=MLX_LAUNCH,
        pid_file=entry.path,
        age=scene.ages.get(pid),
        sure=False,
        connection="",
    )


@dataclass(frozen=True)
class Wanted:
    """What to do about foreign ranks: `kill` ends those whose launcher is gone, `pids` are ended in any case."""

    kill: bool
    pids: Collection[int]


def decide_foreign(ranks: Sequence[ForeignRank], wanted: Wanted) -> list[Finding]:
    """Decide about every foreign rank."""
    return [_decide(one, wanted) for one in ranks]


def _decide(one: ForeignRank, wanted: Wanted) -> Finding:
    end, reason = _verdict(one, wanted)
    words = f"{one.describe()}, launcher: {one.launcher.words}; {reason}"
    return Finding(one.owner, END if end else REPORT, words, pid=one.leader.pid)


def _verdict(one: ForeignRank, wanted: Wanted) -> tuple[bool, str]:
    if any(process.pid in wanted.pids for process in one.processes):
        return True, "it was asked for by pid"
    if not wanted.kill:
        return False, "only reported"
    name_it = f"to end it, name its pid {one.leader.pid}"
    if not one.sure and one.owner == MUSTER:
        return False, f"it belongs to another state directory, where it may have a record; {name_it}"
    if not one.sure:
        return False, f"it is not known for sure to be an MLX rank; {name_it}"
    if one.owner == MUSTER or one.launcher.state == GONE:
        return True, "it was asked for, and nobody is left who would end it"
    if one.launcher.state == ALIVE:
        return False, f"its launcher lives; {name_it}"
    return False, f"whether its launcher lives cannot be seen from this node; {name_it}"
