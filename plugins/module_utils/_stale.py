# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of mlx.launch and exo are left over. Pure: files and processes in, decisions with reasons out.

The files are read before the processes, so that a process that a file is about cannot be missed: it lived when the file
was written. From that follow the rules:

- A pid file (mlx.launch: one process id and a newline, nothing else) goes when no process of that id lives. What lives
  under it now, rank or not, keeps the file, since a pid file alone does not tell the two apart for sure.
- A coordination file goes when it holds exactly what mlx.launch writes, no process has it open, no process of this user
  names it in its environment, it is not younger than YOUNG, and no living process that a pid file of the same moment
  names could still be on its way to use it (mlx.launch writes the pid file first, both before it executes the rank).
- exo tells nobody which file it uses (it sets its environment itself, where no other process sees it), so a file of exo
  goes when it was written before the oldest living process of exo was started, or when there is none.
- A file of a rank that this very call has ended needs not be old: it is known who used it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._finding import KEEP, REMOVE, Finding
from ansible_collections.muster.mlx.plugins.module_utils._process import Process
from ansible_collections.muster.mlx.plugins.module_utils._temporary import MLX_LAUNCH, Entry

YOUNG = 5.0  # seconds; from its first file to the rank's exec mlx.launch needs milliseconds
TOGETHER = 10.0  # seconds; the coordination file of a rank comes milliseconds after its pid file
_CLOCK = 2.0  # seconds; what the start of a process may seem off against the time of a file

_PID = re.compile(rb"[1-9]\d{0,6}\n\Z")
_ADDRESS = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3}):(\d{1,5})\Z", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


@dataclass(frozen=True)
class Evidence:
    """What was seen of the processes after the files had been read.

    `processes` are the living ones. `names` gives, per process of this user whose environment can be read, the file
    names (not paths) of its coordination files. `ranks` are the processes that are ranks, in words. `held` gives the
    processes that have a path open. `exo_since` is when the oldest living process of exo was started, None without
    one. `freed` are the names of coordination files whose ranks this call has ended.
    """

    now: float
    processes: Mapping[int, Process]
    names: Mapping[int, frozenset[str]]
    ranks: Mapping[int, str]
    held: Mapping[str, Sequence[int]]
    exo_since: float | None = None
    freed: frozenset[str] = frozenset()


def pid_of(entry: Entry) -> int | None:
    """Return the process id that a pid file of mlx.launch holds, None when it is no such file."""
    if entry.owner != MLX_LAUNCH or not _PID.match(entry.content):
        return None
    pid = int(entry.content)
    return pid if pid > 1 else None


def is_coordination(entry: Entry) -> bool:
    """Tell whether the content is a coordination file: of mlx.launch to the byte, of exo by its shape."""
    try:
        text = entry.content.decode("ascii")
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if entry.owner == MLX_LAUNCH:
        return text == json.dumps(value) + "\n" and (_is_ring(value) or _is_matrix(value))
    return _is_ring(value) or _is_matrix(value) or _is_row(value)


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(_is_address(item) for item in value)


def _is_ring(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(_is_row(row) for row in value)


def _is_address(item: Any) -> bool:
    match = _ADDRESS.match(item) if isinstance(item, str) else None
    if match is None:
        return False
    *octets, port = (int(number) for number in match.groups())
    return max(octets) < 256 and 0 < port < 65536


def _is_matrix(value: Any) -> bool:
    if not isinstance(value, list) or len(value) < 2:
        return False
    if not all(isinstance(row, list) and len(row) == len(value) and row[i] is None for i, row in enumerate(value)):
        return False
    cells = [cell for row in value for cell in row if cell is not None]
    return bool(cells) and all(_is_device(cell) for cell in cells)


def _is_device(cell: Any) -> bool:
    names = cell if isinstance(cell, list) else [cell]
    return len(names) > 0 and all(isinstance(name, str) and _DEVICE.match(name) is not None for name in names)


def decide(entries: Sequence[Entry], seen: Evidence) -> list[Finding]:
    """Decide about every entry."""
    return [_finding(entry, *_judge(entry, entries, seen)) for entry in entries]


def _finding(entry: Entry, remove: bool, reason: str) -> Finding:
    return Finding(entry.owner, REMOVE if remove else KEEP, reason, path=entry.path)


def _judge(entry: Entry, entries: Sequence[Entry], seen: Evidence) -> tuple[bool, str]:
    pid = pid_of(entry)
    if entry.odd:
        return False, entry.odd
    if not entry.content.strip():
        return False, "it is empty"
    if pid is None and not is_coordination(entry):
        return False, "it holds something else"
    if seen.held.get(entry.path):
        return False, f"open in {_processes(seen.held[entry.path], seen)}"
    if pid is not None:
        return _judge_pid_file(pid, seen)
    users = [number for number, names in seen.names.items() if entry.name in names]
    if users:
        return False, f"used by {_processes(users, seen)}"
    return _judge_mlx(entry, entries, seen) if entry.owner == MLX_LAUNCH else _judge_exo(entry, seen)


def _judge_pid_file(pid: int, seen: Evidence) -> tuple[bool, str]:
    process = seen.processes.get(pid)
    if process is None:
        return True, f"its process {pid} is gone"
    if pid in seen.ranks:
        return False, f"process {pid} lives: {seen.ranks[pid]}"
    return False, f"process {pid} lives and is not known to be an MLX rank ({process.command[:60]})"


def _judge_mlx(entry: Entry, entries: Sequence[Entry], seen: Evidence) -> tuple[bool, str]:
    if entry.name in seen.freed:
        return True, "its rank was ended"
    for other in entries:
        pid = pid_of(other)
        close = other.folder == entry.folder and -1.0 <= entry.modified - other.modified <= TOGETHER
        if pid is not None and pid in seen.processes and close and not seen.names.get(pid):
            return False, f"it may be meant for process {pid}, which lives and whose pid file is of the same moment"
    if seen.now - entry.modified < YOUNG:
        return False, _young(entry, seen)
    return True, "no process uses it"


def _judge_exo(entry: Entry, seen: Evidence) -> tuple[bool, str]:
    if seen.now - entry.modified < YOUNG:
        return False, _young(entry, seen)
    if seen.exo_since is None:
        return True, "no process uses it, and exo is not running"
    if entry.modified < seen.exo_since - _CLOCK:
        return True, "no process uses it, and it is older than the exo that is running"
    return False, "exo is running since before it was written, and may use it"


def _young(entry: Entry, seen: Evidence) -> str:
    age = seen.now - entry.modified
    return f"it was written {age:.1f} s ago, its rank may be starting" if age >= 0 else "its time lies in the future"


def _processes(pids: Iterable[int], seen: Evidence) -> str:
    return ", ".join(f"process {pid}" + (f" ({seen.ranks[pid]})" if pid in seen.ranks else "") for pid in sorted(pids))
