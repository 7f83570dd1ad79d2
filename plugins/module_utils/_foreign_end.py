# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending foreign ranks with the care of an own one: the same loop, the same signals and patience, the same proof."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ansible_collections.muster.mlx.plugins.module_utils._foreign import ForeignRank
from ansible_collections.muster.mlx.plugins.module_utils._look import Snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import (
    Identity,
    Process,
    System,
    is_same,
    members,
    signal_name,
)
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Party, Policy, Standing, end

_ROUNDS = 3  # a child that left its rank while it was being ended is found by what it inherited, and ended too


@dataclass(frozen=True)
class Ended:
    """How one foreign rank was ended. `left` are its processes that are still there, `refused` why, where the system
    said so; `stuck` are those of them that even SIGKILL did not end."""

    rank: ForeignRank
    signals: tuple[tuple[str, float], ...]
    seconds: float | None
    left: tuple[Process, ...]
    refused: tuple[str, ...]

    @property
    def stuck(self) -> tuple[Process, ...]:
        """Processes that the kernel holds."""
        killed = any(name == signal_name(signal.SIGKILL) for name, dummy in self.signals)
        return self.left if killed else ()

    def to_json(self) -> dict[str, Any]:
        """Return plain types; `seconds` from the first signal to the end, None when it did not end."""
        return {
            "pid": self.rank.leader.pid,
            "rank": self.rank.to_json()["rank"],
            "signals": [list(pair) for pair in self.signals],
            "seconds": self.seconds,
            "left": [f"{process.pid} {process.command} ({process.state})" for process in self.left],
        }

    def describe(self) -> str:
        """Say what is left of it, in words."""
        left = ", ".join(f"{process.pid} ({process.command[:60]}, {process.state})" for process in self.left)
        words = f"{self.rank.describe()}: process {left} is still there"
        if self.stuck:
            words += ", held by the kernel where no signal reaches it; only a reboot of the node ends it"
        return "; ".join([words, *self.refused])


def end_foreign(
    ranks: Sequence[ForeignRank], policy: Policy, system: System, look_again: Callable[[], Sequence[ForeignRank]]
) -> list[Ended]:
    """End these ranks at the same time and prove it; `look_again` finds the foreign ranks of now."""
    began, boot = system.monotonic(), system.boot()
    standing = {one.key: Standing(one, "running", began, known=_known(one)) for one in ranks}
    for dummy in range(_ROUNDS):
        end([one for one in standing.values() if not one.over], _finder(boot), policy, system)
        escaped = [one for one in look_again() if one.key in standing and not standing[one.key].members]
        for one in escaped:
            again = standing[one.key]
            again.known.update(_known(one))
            again.members, again.ended = one.processes, None
            again.over, again.step = False, -1
        if not escaped:
            break
    return [_ended(one) for one in standing.values()]


def _known(rank: ForeignRank) -> dict[int, str]:
    return {process.pid: process.start for process in rank.processes}


def _finder(boot: str) -> Callable[[Standing[ForeignRank], Snapshot], Party]:
    def find(one: Standing[ForeignRank], seen: Snapshot) -> Party:
        leader = one.record.leader
        identity = Identity(leader.pid, leader.start, boot)
        found = members(identity, "", seen.table, _NOBODY, seen.boot, one.known)
        leads = leader.pgid == leader.pid and is_same(identity, seen.table.get(leader.pid), seen.boot)
        return Party(tuple(found), leader.pid if leads else None)

    return find


_NOBODY: Mapping[int, str] = {}


def _ended(one: Standing[ForeignRank]) -> Ended:
    first = one.sent[0][1] if one.sent else 0.0
    seconds = round(one.ended - one.began - first, 3) if one.sent and one.ended is not None else None
    return Ended(one.record, tuple(one.sent), seconds, one.members, tuple(dict.fromkeys(one.refused)))
