# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run is kept, started or replaced. Pure, for one node as for the whole group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification, differences

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
        words += [f"rank {one.record.rank}: no longer wanted here"] if not match else []
        for rank in match:
            here = differences(rank, one.record, works[one.record.instance])
            words += [f"rank {rank.rank}, {word}" for word in here]
    if words and not replace_other:
        raise MusterError(
            f"Run {wanted[0].run} should be as specified",
            "it is running with another specification:\n  {}".format("\n  ".join(words)),
            "Launch under another mlx_run, tear it down first, or say mlx_replace=true to stand it down and start anew",
            differences=words,
        )
    if words:
        return Decision(REPLACE, "; ".join(words))
    instances = {one.record.instance for one in living}
    present = {one.record.rank for one in living if one.alive}
    missing = [rank.rank for rank in wanted if rank.rank not in present]
    if missing:
        return Decision(
            REPLACE, "rank {} is not running, and a group cannot be rejoined".format(", ".join(map(str, missing)))
        )
    if len(instances) > 1:
        return Decision(REPLACE, f"ranks of {len(instances)} instances are alive")
    return Decision(KEEP)
