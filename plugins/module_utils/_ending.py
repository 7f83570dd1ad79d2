# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states stopped and absent of the module rank on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import raise_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, settle, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._receipt import CLEAN, Receipt
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, check_instance_name, check_run_name
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy, policy_of
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import lock
from ansible_collections.muster.mlx.plugins.module_utils._teardown import find, tear_down


@dataclass(frozen=True)
class Ending:
    """All that `state: stopped` and `absent` are asked for; `keep` None leaves records and files (stopped)."""

    run: str
    instance: str
    policy: Policy
    issued: float
    keep: int | None
    fence: bool


def ending_of(params: Mapping[str, Any]) -> Ending:
    """Turn the module's options into what is asked for; raise MusterError for what cannot be."""
    return Ending(
        run=check_run_name(params["run"]),
        instance=check_instance_name(params["instance"]) if params["instance"] else "",
        policy=policy_of(params),
        issued=params["issued"],
        keep=params["keep"] if params["state"] == "absent" else None,
        fence=params["raise_fence"],
    )


def ended(places: Places, ending: Ending, system: System, check: bool) -> dict[str, Any]:
    """Stand the run's ranks on this node down; return the module's result, `failed` unless proven clean."""
    settle(places, ending.run, system)
    found = find(places, ending.run, ending.instance, snapshot(system))
    living = [one for one in found.ranks if one.members]
    changed = found.anything if ending.keep is not None else bool(living)
    result: dict[str, Any] = {"changed": changed, "diff": ended_diff(found.ranks, changed)}
    if check:
        return dict(result, ranks=[one.to_json(places) for one in found.ranks])
    unfenced = _raise_fence(places, ending, system)
    with lock(places, "teardown-" + ending.run, ending.policy.grace_max + 30):
        # Another teardown may have done it while this one waited.
        found = find(places, ending.run, ending.instance, snapshot(system))
        receipt = tear_down(places, ending.run, found, ending.policy, ending.issued, ending.keep, system)
    # A rank whose own log had filled the disk is gone now, so there may be room.
    unfenced = unfenced and _raise_fence(places, ending, system)
    if unfenced:
        receipt = replace(receipt, problems=(*receipt.problems, unfenced))
    result["receipt"] = receipt.to_json()
    result["verdict"] = receipt.verdict
    if receipt.verdict != CLEAN:
        result["failed"] = True
        result["msg"] = describe_dirt(receipt)
    return result


def _raise_fence(places: Places, ending: Ending, system: System) -> str:
    """Leave the fence; return, in words, why it could not be left, which keeps nobody from standing the ranks down."""
    if ending.fence:
        try:
            raise_fence(places, ending.run, ending.issued, system.now())
        except (OSError, MusterError) as error:
            return f"the fence could not be written ({error}), so a launch that is on its way may still start"
    return ""


def describe_dirt(receipt: Receipt) -> str:
    """Say what keeps a node from being clean, and what to do."""
    words = list(receipt.problems)
    for one in receipt.ranks:
        words += [f"rank {one.rank}: process {process} is still there" for process in one.left]
        words += [f"rank {one.rank}: {port}" for port in one.ports]
        if one.stuck:
            words.append(
                f"rank {one.rank} is held by the kernel where no signal reaches it; only a reboot of the node ends it"
            )
    return "Run {} is not proven gone on this node: {}. Its record stays; run teardown.yml again.".format(
        receipt.run,
        "; ".join(words),
    )


def ended_diff(found: Sequence[Sighting], changed: bool) -> dict[str, Any]:
    """Return before and after for diff mode."""
    if not changed:
        return {"before": {}, "after": {}}
    return {"before": {f"rank {one.record.rank}": one.state for one in found}, "after": {}}
