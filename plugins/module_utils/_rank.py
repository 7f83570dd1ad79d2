# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three states of the module rank on one node: started, stopped, absent. Look, decide, then act."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from ansible_collections.muster.mlx.plugins.module_utils._copies import altered
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import passed_since, raise_fence, read_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, look, sight, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._ready import Proof, Stopped, await_ready
from ansible_collections.muster.mlx.plugins.module_utils._receipt import CLEAN, Receipt
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification, differences
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy
from ansible_collections.muster.mlx.plugins.module_utils._start import Launch, start
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import lock, runs
from ansible_collections.muster.mlx.plugins.module_utils._teardown import find, tear_down

_LAUNCH_LOCK = 20.0  # seconds; it is held while ranks are being started, not while they come up

KEEP, START, REPLACE = "keep", "start", "replace"


@dataclass(frozen=True)
class Decision:
    """What to do with a run: `keep` it, `start` it (nothing of it lives), or `replace` it (something does); and why."""

    action: str
    reason: str = ""


def decide(
    wanted: Sequence[Specification], found: Sequence[Sighting], works: Mapping[str, str], replace_other: bool
) -> Decision:
    """Decide between keeping, starting and replacing. Pure, for one node as for the whole group.

    `works` gives the working directory of each instance. Raises MusterError when a living run differs from
    what is wanted and `replace_other` is off.
    """
    living = [one for one in found if one.members]
    if not living:
        return Decision(START, "no rank of it is running")
    words = []
    for one in living:
        match = [rank for rank in wanted if rank.rank == one.record.rank]
        words += ["rank %d: no longer wanted here" % one.record.rank] if not match else []
        for rank in match:
            here = differences(rank, one.record, works[one.record.instance])
            words += ["rank %d, %s" % (rank.rank, word) for word in here]
    if words and not replace_other:
        raise MusterError(
            "Run %s should be as specified" % wanted[0].run,
            "it is running with another specification:\n  %s" % "\n  ".join(words),
            "Launch under another mlx_run, tear it down first, or say mlx_replace=true to stand it down and start anew",
            differences=words,
        )
    if words:
        return Decision(REPLACE, "; ".join(words))
    instances = {one.record.instance for one in living}
    present = {one.record.rank for one in living if one.alive}
    missing = [rank.rank for rank in wanted if rank.rank not in present]
    if missing or len(instances) > 1:
        return Decision(REPLACE, "rank %s is not running, and a group cannot be rejoined" % ", ".join(map(str, missing)))
    return Decision(KEEP)


@dataclass(frozen=True)
class Wish:
    """All that `state: started` is asked for."""

    specifications: tuple[Specification, ...]
    launch: Launch
    proof: Proof
    timeout: float
    replace: bool
    policy: Policy
    keep: int


def started(places: Places, wish: Wish, login: Mapping[str, str], system: System, check: bool) -> dict[str, Any]:
    """Bring this node's ranks up and wait until they show it; return the module's result."""
    run = wish.specifications[0].run
    seen = snapshot(system)
    found, dummy = look(places, run, seen)
    works = {one.record.instance: places.work(run, one.record.instance) for one in found}
    decision = decide(wish.specifications, found, works, wish.replace)
    changed = decision.action != KEEP
    result: dict[str, Any] = {"changed": changed, "action": decision.action, "reason": decision.reason}
    living = [one for one in found if one.members]
    result["diff"] = started_diff(places, wish.specifications, living) if changed else {"before": {}, "after": {}}
    if check:
        ranks = [_predicted(rank) for rank in wish.specifications] if changed else [one.to_json(places) for one in living]
        return dict(result, ranks=ranks)
    if changed:
        records = _start_anew(places, wish, login, system)
    else:
        records = [one.record for one in living]
    try:
        sightings = await_ready(places, records, wish.proof, wish.timeout, system)
    except MusterError as error:
        if changed:
            error.facts["receipt"] = _take_down(places, run, wish, system).to_json()
        error.facts["stood_down"] = isinstance(error, Stopped)
        raise
    return dict(result, ranks=[one.to_json(places) for one in sightings])


def _start_anew(places: Places, wish: Wish, login: Mapping[str, str], system: System) -> list[Any]:
    run = wish.specifications[0].run
    with lock(places, "launch-" + run, _LAUNCH_LOCK), lock(places, "ports", _LAUNCH_LOCK):
        fence = read_fence(places, run)
        if passed_since(fence, wish.launch.fence, wish.launch.issued):
            raise MusterError(
                "Run %s should start" % run,
                "a teardown of it passed on this node after the launch was issued, so nothing was started",
                "Launch again if it is still wanted",
                fenced=True,
            )
        found = find(places, run, "", snapshot(system))
        if any(one.members for one in found.ranks) and not _replaceable(found.ranks, wish):
            raise MusterError("Run %s should start" % run, "another launch of it started meanwhile", "Look with status.yml")
        if found.anything:
            receipt = tear_down(places, run, found, wish.policy, wish.launch.issued, wish.keep, system)
            if receipt.verdict != CLEAN:
                raise MusterError(
                    "What is left of run %s should be gone before it starts" % run,
                    "; ".join(receipt.problems) or "processes stay: see the receipt",
                    "Run teardown.yml and follow what it says",
                    receipt=receipt.to_json(),
                )
        check_ports(places, run, wish.specifications, system)
        try:
            launch = replace(wish.launch, fence=fence.token)
            return list(start(places, wish.specifications, launch, login, system))
        except (MusterError, OSError):
            _take_down(places, run, wish, system)
            raise


def _replaceable(found: Sequence[Sighting], wish: Wish) -> bool:
    return all(one.record.issued < wish.launch.issued for one in found)


def check_ports(places: Places, run: str, wanted: Sequence[Specification], system: System) -> None:
    """Raise MusterError when a port of these ranks is in use.

    MLX binds with SO_REUSEPORT (mlx/distributed/utils.cpp): two groups on one port start without an error and
    mix up. So a port counts as taken when anything listens on it, or a living rank's record names it, which listens no more.
    """
    addresses = [address for rank in wanted for address in rank.addresses]
    taken = ports_taken(places, run, addresses, system)
    if taken:
        raise MusterError(
            "The ports of run %s should be free" % run,
            "; ".join(taken),
            "End that process, or choose another mlx_starting_port",
        )


def ports_taken(places: Places, run: str, addresses: Sequence[str], system: System) -> list[str]:
    """Return, in words, who uses which of these `ip:port`; ranks of the run itself do not count."""
    seen = snapshot(system)
    found = []
    own: set[int] = set()
    for name in runs(places):
        for one in look(places, name, seen)[0]:
            if name == run:
                own.update(process.pid for process in one.members)
            elif one.members:
                shared = sorted({*one.record.addresses} & {*addresses})
                found += ["%s belongs to rank %d of run %s" % (address, one.record.rank, name) for address in shared]
    for item in system.listeners():
        for address in addresses:
            ip, dummy, port = address.rpartition(":")
            if item.port == int(port) and item.address in (ip, "0.0.0.0", "::") and item.pid not in own:
                holder = "process %d (%s)" % (item.pid, item.command) if item.pid else "a process of another user"
                found.append("%s is in use by %s" % (address, holder))
    return found


def _take_down(places: Places, run: str, wish: Wish, system: System) -> Receipt:
    found = find(places, run, wish.launch.instance, snapshot(system))
    return tear_down(places, run, found, wish.policy, wish.launch.issued, wish.keep, system)


def started_diff(places: Places, wanted: Sequence[Specification], living: Sequence[Sighting]) -> dict[str, Any]:
    """Return before and after for diff mode: per rank its program, directory, environment names and addresses."""
    before = {
        "rank %d" % one.record.rank: {
            "state": one.state,
            "program": list(one.record.argv),
            "environment": sorted([*one.record.environment, *one.record.secrets]),
            "addresses": list(one.record.addresses),
            "files": sorted(one.record.files),
        }
        for one in living
    }
    after = {
        "rank %d" % rank.rank: {
            "state": "running",
            "program": list(rank.argv),
            "environment": sorted([*rank.environment, *rank.secrets]),
            "addresses": list(rank.addresses),
            "files": sorted(rank.files),
        }
        for rank in wanted
    }
    return {"before": before, "after": after}


def _predicted(rank: Specification) -> dict[str, Any]:
    ports = sorted({int(address.rpartition(":")[2]) for address in rank.addresses})
    return {"run": rank.run, "rank": rank.rank, "size": rank.size, "pid": None, "state": "would start", "ports": ports}


@dataclass(frozen=True)
class Ending:
    """All that `state: stopped` and `absent` are asked for; `keep` None leaves records and files (stopped)."""

    run: str
    instance: str
    policy: Policy
    issued: float
    keep: int | None
    fence: bool


def ended(places: Places, ending: Ending, system: System, check: bool) -> dict[str, Any]:
    """Stand the run's ranks on this node down; return the module's result, `failed` unless proven clean."""
    found = find(places, ending.run, ending.instance, snapshot(system))
    living = [one for one in found.ranks if one.members]
    changed = found.anything if ending.keep is not None else bool(living)
    result: dict[str, Any] = {"changed": changed, "diff": ended_diff(found.ranks, changed)}
    if check:
        return dict(result, ranks=[one.to_json(places) for one in found.ranks])
    if ending.fence:
        raise_fence(places, ending.run, ending.issued, system.now())
    with lock(places, "teardown-" + ending.run, ending.policy.grace_max + 30):
        # Another teardown may have done it while this one waited.
        found = find(places, ending.run, ending.instance, snapshot(system))
        receipt = tear_down(places, ending.run, found, ending.policy, ending.issued, ending.keep, system)
    result["receipt"] = receipt.to_json()
    result["verdict"] = receipt.verdict
    if receipt.verdict != CLEAN:
        result["failed"] = True
        result["msg"] = describe_dirt(receipt)
    return result


def describe_dirt(receipt: Receipt) -> str:
    """Say what keeps a node from being clean, and what to do."""
    words = list(receipt.problems)
    for one in receipt.ranks:
        words += ["rank %d: process %s is still there" % (one.rank, process) for process in one.left]
        words += ["rank %d: %s" % (one.rank, port) for port in one.ports]
        if one.stuck:
            words.append("rank %d is held by the kernel where no signal reaches it; only a reboot of the node ends it" % one.rank)
    return "Run %s is not proven gone on this node: %s. Its record stays; run teardown.yml again." % (
        receipt.run,
        "; ".join(words),
    )


def ended_diff(found: Sequence[Sighting], changed: bool) -> dict[str, Any]:
    """Return before and after for diff mode."""
    if not changed:
        return {"before": {}, "after": {}}
    return {"before": {"rank %d" % one.record.rank: one.state for one in found}, "after": {}}


def altered_files(places: Places, found: Sequence[Sighting]) -> list[str]:
    """Return, in words, the copies of mlx_files that a living rank was started from and that are no longer the same."""
    words = set()
    for one in found:
        if one.members:
            work = places.work(one.record.run, one.record.instance)
            words.update("%s is %s" % (os.path.join(work, name), how) for name, how in altered(work, one.record.files).items())
    return sorted(words)
