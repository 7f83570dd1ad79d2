# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A teardown of one run on one node: stand its ranks down, look again, remove what can be made anew, write it down."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.muster.mlx.plugins.module_utils._copies import remove_copies
from ansible_collections.muster.mlx.plugins.module_utils._look import (
    Sighting,
    Snapshot,
    kept_work,
    log_path,
    look,
    sight,
    snapshot,
    strays,
)
from ansible_collections.muster.mlx.plugins.module_utils._process import Listener, Process, System
from ansible_collections.muster.mlx.plugins.module_utils._quarantine import (
    Quarantine,
    lift_quarantine,
    put_in_quarantine,
    read_quarantine,
)
from ansible_collections.muster.mlx.plugins.module_utils._receipt import RankReceipt, Receipt
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, MANIFEST, STAGING, Damaged, Places
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy, Progress, stand_down
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import (
    instances,
    prune,
    ranks,
    read_manifest,
    write_json,
)


@dataclass(frozen=True)
class Found:
    """What a teardown is about: recorded ranks, damaged records, stray processes, and files that can be made anew."""

    ranks: tuple[Sighting, ...]
    damaged: tuple[Damaged, ...]
    strays: tuple[Process, ...]
    files: tuple[str, ...]

    @property
    def anything(self) -> bool:
        """Whether a teardown would change the node."""
        return bool(self.ranks or self.files)


def find(places: Places, run: str, instance: str, seen: Snapshot) -> Found:
    """Return what there is of a run, or of one instance of it when `instance` is not empty."""
    sightings, damaged = look(places, run, seen)
    wanted = [instance] if instance else instances(places, run)
    folders = tuple(places.instance(run, name) + os.sep for name in wanted)
    return Found(
        tuple(one for one in sightings if one.record.instance in wanted),
        tuple(one for one in damaged if one.path.startswith(folders)),
        tuple(strays(places, run, seen)),
        tuple(path for name in wanted for path in litter(places, run, name)),
    )


def litter(places: Places, run: str, instance: str) -> list[str]:
    """Return the files of an instance that Muster made and can make anew.

    Records come last, so that a rank's record is there as long as anything else of it.
    """
    folder = places.instance(run, instance)
    rank_folders = [places.rank(run, instance, rank) for rank in ranks(places, run, instance)]
    found = [os.path.join(folder, name) for name in ("abort", "supervisor.py", STAGING, MANIFEST)]
    for rank in ranks(places, run, instance):
        found.append(places.coordination(run, instance, rank))
    found += [os.path.join(one, BEGAN) for one in rank_folders]
    found += [path for path in (os.path.join(one, "supervisor.log") for one in rank_folders) if _is_empty(path)]
    found += [
        os.path.join(one, name) for one in [folder, *rank_folders] for name in _names(one) if name.endswith(".new")
    ]
    found += [os.path.join(one, "record.json") for one in rank_folders]
    return [path for path in found if os.path.lexists(path)]


def tear_down(
    places: Places, run: str, found: Found, policy: Policy, issued: float, keep: int | None, system: System
) -> Receipt:
    """Stand the found ranks down and return the receipt.

    With `keep` None only the processes are stopped; else files are removed too, and finished instances beyond `keep`.
    """
    began, wired = system.now(), system.wired()
    progress = stand_down(places, found.ranks, policy, system)
    seen = snapshot(system)
    listeners = system.listeners() if any(one.was == "running" for one in progress) else []
    rank_receipts = tuple(_rank_receipt(places, one, seen, listeners) for one in progress)
    note = _quarantine(places, run, progress, seen)
    problems = [_damage(one) for one in found.damaged] + [_stray(one) for one in strays(places, run, seen)]
    problems += [f"rank {one.record.rank}: {words}" for one in progress if one.members for words in one.refused]
    removed: list[str] = []
    living = {mark.split("/")[1] for mark in seen.markers.values() if mark.startswith(run + "/")}
    if keep is not None:
        kept = {receipt.instance for receipt in rank_receipts if receipt.left}
        kept |= {one.path.split(os.sep)[-3] for one in found.damaged} | living
        removed += _remove_files(places, run, [path for path in found.files if not _below(path, kept)], problems)
    receipt = Receipt(
        run=run,
        issued=issued,
        began=began,
        ended=system.now(),
        boot=seen.boot,
        ranks=rank_receipts,
        problems=tuple(problems),
        files_removed=tuple(removed),
        files_left=tuple(kept_work(places, run)) + tuple(one.log for one in rank_receipts),
        wired_before=wired,
        wired_after=system.wired(),
        quarantine=note.reason if note else "",
    )
    for instance in sorted({one.record.instance for one in progress}):
        try:
            write_json(os.path.join(places.instance(run, instance), "receipt.json"), receipt.to_json())
        except OSError as error:
            problem = f"the receipt could not be kept on the node: {error}"
            receipt = replace(receipt, problems=(*receipt.problems, problem))
    if keep is not None:
        prune(places, run, keep, living)
    return receipt


def _quarantine(places: Places, run: str, progress: Sequence[Progress], seen: Snapshot) -> Quarantine | None:
    """Put the node into quarantine for what even SIGKILL did not end, or lift one whose reason is gone."""
    stuck = [process for one in progress for process in _stuck(one)]
    if stuck:
        return put_in_quarantine(places, seen.boot, seen.now, run, stuck)
    lift_quarantine(places, seen.boot, seen.table)
    return read_quarantine(places, seen.boot)


def _stuck(one: Progress) -> list[Process]:
    # Whatever letter it shows (D, U, or E on macOS): a process that outlives SIGKILL is held by the kernel.
    return list(one.members) if any(name == "SIGKILL" for name, dummy in one.sent) else []


def _rank_receipt(places: Places, one: Progress, seen: Snapshot, listeners: Sequence[Listener]) -> RankReceipt:
    record = one.record
    first = one.sent[0][1] if one.sent else 0.0
    return RankReceipt(
        rank=record.rank,
        instance=record.instance,
        pid=record.pid,
        start=record.start,
        boot=record.boot,
        program=record.argv,
        was=one.was,
        state=sight(places, record, seen).state,
        signals=tuple(one.sent),
        seconds=round(one.ended - one.began - first, 3) if one.sent and one.ended is not None else None,
        left=tuple(f"{process.pid} {process.command} ({process.state})" for process in one.members),
        stuck=tuple(process.pid for process in _stuck(one)),
        ports=_still_listening(one, seen, listeners),
        log=log_path(places, record),
    )


def _still_listening(one: Progress, seen: Snapshot, listeners: Sequence[Listener]) -> tuple[str, ...]:
    # Of a rank that was dead before, the ports may long be somebody else's; so may those that another rank holds.
    if one.was != "running":
        return ()
    ports = {int(address.rpartition(":")[2]) for address in one.record.addresses}
    ips = {address.rpartition(":")[0] for address in one.record.addresses} | {"0.0.0.0", "::"}
    left = [item for item in listeners if item.port in ports and item.address in ips]
    return tuple(
        f"{item.address}:{item.port} held by {item.pid or 'a process of another user'} {item.command}"
        for item in left
        if not _other_rank(item, one, seen.markers)
    )


def _other_rank(item: Listener, one: Progress, markers: Mapping[int, str]) -> bool:
    marker = markers.get(item.pid) if item.pid else None
    return marker is not None and marker != one.record.marker


def _remove_files(places: Places, run: str, paths: Sequence[str], problems: list[str]) -> list[str]:
    removed = []
    for path in paths:
        try:
            if os.path.basename(path) == MANIFEST:
                removed += _remove_copies(path)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass  # the supervisor removed its rank's coordination file as it ended
        except OSError as error:
            problems.append(f"{path} could not be removed: {error.strerror}")
            continue
        removed.append(path)
    for instance in instances(places, run):
        with contextlib.suppress(OSError):
            os.rmdir(places.work(run, instance))
    return removed


def _remove_copies(manifest: str) -> list[str]:
    folder = os.path.dirname(manifest)
    return remove_copies(os.path.join(folder, "work"), read_manifest(folder))


def _damage(one: Damaged) -> str:
    return (
        f"{one.path} cannot be believed ({one.reason}), so nothing was signalled for it; "
        "look at the node's processes and remove the file by hand"
    )


def _stray(process: Process) -> str:
    return (
        f"process {process.pid} ({process.command}) carries this run's marker and no record names it; "
        "it was not touched"
    )


def _below(path: str, kept: set[str]) -> bool:
    return any(os.sep + instance + os.sep in path for instance in kept)


def _is_empty(path: str) -> bool:
    try:
        return os.path.getsize(path) == 0
    except OSError:
        return False


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
