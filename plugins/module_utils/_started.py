# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state started of the module rank on one node. Look, decide, then act."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._decision import KEEP, Decision, decide
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import Fence, passed_since, read_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, settle, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._ports import check_ports
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._ready import Proof, Stopped, await_ready, proof_of
from ansible_collections.muster.mlx.plugins.module_utils._receipt import CLEAN, Receipt
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, Record, check_instance_name
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification, from_options
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy, policy_of
from ansible_collections.muster.mlx.plugins.module_utils._start import Launch, start
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import lock
from ansible_collections.muster.mlx.plugins.module_utils._teardown import find, tear_down

_LAUNCH_LOCK = 20.0  # seconds; it is held while ranks are being started, not while they come up


@dataclass(frozen=True)
class Wish:
    """All that `state: started` is asked for.

    `expect` is what a look at the whole group decided, `keep` or `start`, empty when nobody looked.
    """

    specifications: tuple[Specification, ...]
    launch: Launch
    proof: Proof
    timeout: float
    replace: bool
    policy: Policy
    keep: int
    expect: str = ""


def wish_of(params: Mapping[str, Any]) -> Wish:
    """Turn the module's options into what is asked for; raise MusterError for what cannot be."""
    return Wish(
        specifications=tuple(from_options(params, sys.executable)),
        launch=Launch(
            check_instance_name(params["instance"]), params["issued"], params["fence"], params["archive"] or ""
        ),
        proof=proof_of(params),
        timeout=params["ready_timeout"],
        replace=params["replace"],
        policy=policy_of(params),
        keep=params["keep"],
        expect=params["expect"] or "",
    )


def started(places: Places, wish: Wish, system: System, check: bool) -> dict[str, Any]:
    """Bring this node's ranks up and wait until they show it; return the module's result."""
    run = wish.specifications[0].run
    found, dummy = settle(places, run, system)
    works = {one.record.instance: places.work(run, one.record.instance) for one in found}
    decision = decide(wish.specifications, found, works, wish.replace)
    changed = decision.action != KEEP
    result: dict[str, Any] = {"changed": changed, "action": decision.action, "reason": decision.reason}
    living = [one for one in found if one.members]
    result["diff"] = started_diff(places, wish.specifications, living) if changed else {"before": {}, "after": {}}
    if check:
        ranks = (
            [_predicted(rank) for rank in wish.specifications] if changed else [one.to_json(places) for one in living]
        )
        return dict(result, ranks=ranks)
    _check_expected(run, wish, decision)
    fence, records = (
        _start_anew(places, wish, living, system)
        if changed
        else (read_fence(places, run), [one.record for one in living])
    )
    try:
        sightings = await_ready(places, records, fence, wish.proof, wish.timeout, system)
    except MusterError as error:
        if changed:
            error.facts["receipt"] = _take_down(places, run, wish, system).to_json()
        error.facts["stood_down"] = isinstance(error, Stopped)
        raise
    return dict(result, ranks=[one.to_json(places) for one in sightings])


def _check_expected(run: str, wish: Wish, decision: Decision) -> None:
    if wish.expect and decision.action != wish.expect:
        raise MusterError(
            f"Run {run} should be as the launch found it a moment ago, to {wish.expect} it",
            f"now the thing to do would be to {decision.action} it: {decision.reason or 'all of it is up'}",
            "Another launch or a teardown is at work; look with status.yml, then launch again",
        )


def _start_anew(places: Places, wish: Wish, living: Sequence[Sighting], system: System) -> tuple[Fence, list[Record]]:
    run = wish.specifications[0].run
    with lock(places, "launch-" + run, _LAUNCH_LOCK), lock(places, "ports", _LAUNCH_LOCK):
        fence = read_fence(places, run)
        if passed_since(fence, wish.launch.fence, wish.launch.issued):
            raise MusterError(
                f"Run {run} should start",
                "a teardown of it passed on this node after the launch was issued, so nothing was started",
                "Launch again if it is still wanted",
                fenced=True,
            )
        _clear(places, wish, {one.record.marker for one in living}, system)
        check_ports(places, run, wish.specifications, system)
        try:
            launch = replace(wish.launch, fence=fence.token)
            return fence, start(places, wish.specifications, launch, dict(os.environ), system)
        except (MusterError, OSError):
            _take_down(places, run, wish, system)
            raise


def _clear(places: Places, wish: Wish, replaceable: set[str], system: System) -> None:
    """Remove what earlier instances left, and stand down those living ranks that the decision knew of."""
    run = wish.specifications[0].run
    with lock(places, "teardown-" + run, wish.policy.grace_max + 30):
        found = find(places, run, "", snapshot(system))
        if any(one.members and one.record.marker not in replaceable for one in found.ranks):
            raise MusterError(
                f"Run {run} should start", "another launch of it started meanwhile", "Look with status.yml"
            )
        if not found.anything:
            return
        receipt = tear_down(places, run, found, wish.policy, wish.launch.issued, wish.keep, system)
    if receipt.verdict != CLEAN:
        raise MusterError(
            f"What is left of run {run} should be gone before it starts",
            "; ".join(receipt.problems) or "processes stay: see the receipt",
            "Run teardown.yml and follow what it says",
            receipt=receipt.to_json(),
        )


def _take_down(places: Places, run: str, wish: Wish, system: System) -> Receipt:
    # Under the lock of teardowns: one that passes at the same time must not remove the same files.
    with lock(places, "teardown-" + run, wish.policy.grace_max + 30):
        found = find(places, run, wish.launch.instance, snapshot(system))
        return tear_down(places, run, found, wish.policy, wish.launch.issued, wish.keep, system)


def started_diff(places: Places, wanted: Sequence[Specification], living: Sequence[Sighting]) -> dict[str, Any]:
    """Return before and after for diff mode: per rank its program, directory, environment names and addresses."""
    before = {
        f"rank {one.record.rank}": {
            "state": one.state,
            "program": list(one.record.argv),
            "environment": sorted([*one.record.environment, *one.record.secrets]),
            "addresses": list(one.record.addresses),
            "files": sorted(one.record.files),
        }
        for one in living
    }
    after = {
        f"rank {rank.rank}": {
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
