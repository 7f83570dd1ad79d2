# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Standing ranks down: who gets which signal when, and the proof that nothing of them is left."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Generic, TypeVar

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, Snapshot, sight, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import (
    Identity,
    Process,
    System,
    is_same,
    signal_name,
)
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, Record

_AFTER_KILL = 5.0  # seconds; a process that SIGKILL does not end by then is held by the kernel
_RELEASING = 10.0  # seconds; memory that fell within them means that the rank is still releasing it
_NOISE = 1 << 20  # bytes; a smaller change of the memory is no release
_SUPERVISOR = 3.0  # seconds for the supervisor to write exit.json once its rank is gone


@dataclass(frozen=True)
class Policy:
    """How to stop a rank: `signals` in order, `grace` seconds after each, up to `grace_max` while its memory falls;
    SIGKILL last, if `escalate`."""

    signals: tuple[int, ...] = (signal.SIGTERM,)
    grace: float = 30.0
    grace_max: float = 180.0
    escalate: bool = True

    @property
    def steps(self) -> tuple[int, ...]:
        """Every signal that may be sent."""
        return (*self.signals, signal.SIGKILL) if self.escalate else self.signals

    def patience(self, step: int, falling: bool) -> float:
        """Return how long to wait after a step, in seconds."""
        if self.steps[step] == signal.SIGKILL:
            return _AFTER_KILL
        return max(self.grace, self.grace_max) if falling else self.grace


def policy_of(params: Mapping[str, Any]) -> Policy:
    """Return how a rank is to be stopped; raise MusterError for a signal that does not exist."""
    numbers = []
    for name in params["stop_signals"]:
        member = getattr(signal, "SIG" + name.upper().replace("SIG", "", 1), None)
        if not isinstance(member, signal.Signals):
            raise MusterError("mlx_stop_signals names signals, for example [INT, TERM]", f"{name!r}")
        numbers.append(int(member))
    return Policy(tuple(numbers), params["grace"], params["grace_max"], params["escalate"])


Whom = TypeVar("Whom")


@dataclass
class Standing(Generic[Whom]):
    """What is being stood down: a rank, by its `record` (for others than Muster's own ranks, by what a look found).

    `known` is every process that a look proved to belong, pid → start: it still belongs when its leader is gone.
    `refused` says which signals the system would not deliver.
    """

    record: Whom
    was: str
    began: float
    members: tuple[Process, ...] = ()
    step: int = -1
    stepped: float = 0.0
    sent: list[tuple[str, float]] = field(default_factory=list)
    lowest: int = 0
    fell: float = float("-inf")
    ended: float | None = None
    over: bool = False
    known: dict[int, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)


Progress = Standing[Record]
"""A rank that is being stood down."""


@dataclass(frozen=True)
class Party:
    """The living processes that belong together, as one look proved; `group` is the process group that is theirs alone,
    None where there is none."""

    members: tuple[Process, ...]
    group: int | None


Find = Callable[["Standing[Whom]", Snapshot], Party]


def stand_down(places: Places, found: Sequence[Sighting], policy: Policy, system: System) -> list[Progress]:
    """Stop all these ranks at the same time and return how it went, `members` being what is left.

    Signals go only to processes that the last look, made just before, proved to belong to the rank.
    """

    def find(one: Progress, seen: Snapshot) -> Party:
        now = sight(places, one.record, seen, one.known)
        return Party(now.members, now.record.pid if now.alive else None)

    began = system.monotonic()
    progress = [Progress(one.record, one.state, began) for one in found]
    end(progress, find, policy, system)
    for one in progress:
        if not one.members:
            _await_supervisor(one.record, system)
    return progress


def end(progress: Sequence[Standing[Whom]], find: Find[Whom], policy: Policy, system: System) -> None:
    """Stop all these at the same time; `find` tells, from one reading of the node, who belongs to each."""
    pause = 0.01
    while True:
        seen = snapshot(system)
        for one in progress:
            if not one.over:
                _advance(one, find(one, seen), policy, system)
        if all(one.over for one in progress):
            return
        system.sleep(pause)
        pause = min(0.2, pause * 1.4)


def next_move(one: Standing[Any], policy: Policy, now: float) -> str:
    """Decide for a rank that still has members: `wait`, `signal` (the next step) or `leave`. Pure."""
    if one.step < 0:
        return "signal" if policy.steps else "leave"
    falling = now - one.fell < min(policy.grace, _RELEASING)
    if now - one.stepped < policy.patience(one.step, falling):
        return "wait"
    return "signal" if one.step + 1 < len(policy.steps) else "leave"


def _advance(one: Standing[Any], party: Party, policy: Policy, system: System) -> None:
    now = system.monotonic()
    one.members = party.members
    one.known.update((process.pid, process.start) for process in party.members)
    if not party.members:
        one.over, one.ended = True, now
        return
    _watch_memory(one, now)
    move = next_move(one, policy, now)
    if move == "leave":
        one.over = True
    elif move == "signal":
        one.step += 1
        one.stepped = now
        number = policy.steps[one.step]
        one.sent.append((signal_name(number), round(now - one.began, 3)))
        one.refused += _deliver(party, number, system)


def _watch_memory(one: Standing[Any], now: float) -> None:
    size = sum(process.rss for process in one.members)
    if one.lowest and size <= one.lowest - _NOISE:
        one.fell = now
        one.lowest = size
    one.lowest = one.lowest or size


def _deliver(party: Party, number: int, system: System) -> list[str]:
    """Signal the group and everybody outside of it; return, in words, what the system refused, which stops nothing."""
    group, refused = party.group, []
    if group and _still(party.members[0], system):
        refused += _send(party.members, partial(system.killpg, group, number), system)
    for process in party.members:
        outside = group is None or process.pgid != group
        if outside and _still(process, system):
            refused += _send([process], partial(system.kill, process.pid, number), system)
        # A stopped process keeps every signal but SIGKILL pending until it continues.
        if process.state == "T" and number != signal.SIGKILL and _still(process, system):
            refused += _send([process], partial(system.kill, process.pid, signal.SIGCONT), system)
    return refused


def _send(targets: Sequence[Process], send: Callable[[], bool], system: System) -> list[str]:
    try:
        send()
    except MusterError as error:
        # macOS refuses a signal to a group of which only zombies are left (XNU, kern_sig.c, killpg1).
        return [str(error)] if any(_still(process, system) for process in targets) else []
    return []


def _still(process: Process, system: System) -> bool:
    now = system.process(process.pid)
    return now is not None and now.start == process.start and now.alive


def _await_supervisor(record: Record, system: System) -> None:
    """Let the supervisor write exit.json and end; one that does not is ended, by identity."""
    supervisor, boot = record.supervisor, system.boot()
    if supervisor is None or _gone(supervisor, boot, system):
        return
    system.kill(supervisor.pid, signal.SIGKILL)
    _gone(supervisor, boot, system)


def _gone(identity: Identity, boot: str, system: System) -> bool:
    deadline = system.monotonic() + _SUPERVISOR
    while is_same(identity, system.process(identity.pid), boot):
        if system.monotonic() > deadline:
            return False
        system.sleep(0.005)
    return True
