# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a launch is up: what each rank must show, judged from outside, without touching the program."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._coordination import next_addresses
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._fence import Fence, read_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import (
    Sighting,
    is_ending,
    log_path,
    sight,
    snapshot,
    tail,
)
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, Places, Record

ABORT = "abort"
"""File in an instance's folder with which the controller ends the wait on this node, since another node failed."""


@dataclass(frozen=True)
class Proof:
    """How the group proves that it is up.

    `ring`: every rank holds its connections to the next rank. `log`: rank 0's log matches `pattern`.
    `port`: rank 0 listens on `port`. `process`: every rank runs. With `log` and `port` the other ranks
    of a ring hold their connections, since in MLX programs it is rank 0 that speaks.
    """

    kind: str
    pattern: str = ""
    port: int = 0


def proof_of(params: Mapping[str, Any]) -> Proof:
    """Return how the group proves that it is up; raise MusterError where a pattern or a port is missing."""
    kind = params["ready"] or params["backend"]
    if kind == "log" and not params["ready_pattern"]:
        raise MusterError("mlx_ready: log needs mlx_ready_pattern, a regular expression", "it is empty")
    if kind == "port" and not params["ready_port"]:
        raise MusterError("mlx_ready: port needs mlx_ready_port", "it is empty")
    try:
        re.compile(params["ready_pattern"] or "")
    except re.error as error:
        raise MusterError(
            "mlx_ready_pattern is a regular expression", f"{params['ready_pattern']!r}: {error}"
        ) from error
    return Proof(kind, params["ready_pattern"] or "", params["ready_port"] or 0)


@dataclass(frozen=True)
class Failure:
    """A rank that cannot come up any more, with its last lines; `time` is when it ended, by the node's clock."""

    rank: int
    state: str
    log: str
    last_lines: tuple[str, ...]
    code: int | None = None
    time: float | None = None


class Stopped(MusterError):
    """The wait ended since somebody stands the launch down; this node is not at fault."""


def await_ready(
    places: Places, records: Sequence[Record], fence: Fence, proof: Proof, timeout: float, system: System
) -> list[Sighting]:
    """Wait until every rank of this node shows its proof, and return them; `fence` is the run's as the wait begins.

    Raises MusterError (with a `failures` fact) as soon as a rank has ended otherwise than with exit code 0, or
    when `timeout` seconds are over; Stopped when the launch is stood down meanwhile.
    """
    deadline = system.monotonic() + timeout
    pause = 0.02
    while True:
        seen = snapshot(system)
        sightings = [sight(places, record, seen) for record in records]
        _raise_if_torn_down(places, records[0].run, fence)
        # A rank whose supervisor is still writing down how it ended is judged at the next look.
        over = [one for one in sightings if not one.alive and not is_ending(one, seen)]
        failures = [_failure(places, one) for one in over if not _done(one, proof)]
        if failures:
            raise _failed(failures, seen.now)
        _raise_if_aborted(places, records)
        missing = [
            one for one in sightings if one not in over and not (one.alive and shows(places, one, proof, system))
        ]
        if not missing:
            return sightings
        if system.monotonic() > deadline:
            raise _late(places, missing, proof, timeout, seen.now)
        system.sleep(pause)
        pause = min(0.25, pause * 1.3)


def shows(places: Places, one: Sighting, proof: Proof, system: System) -> bool:
    """Tell whether a living rank shows what it must; one that still waits at its supervisor's gate shows nothing."""
    record = one.record
    if not os.path.exists(os.path.join(places.rank(record.run, record.instance, record.rank), BEGAN)):
        return False
    if one.record.rank == 0 and proof.kind == "log":
        return log_matches(log_path(places, one.record), proof.pattern)
    if one.record.rank == 0 and proof.kind == "port":
        own = {process.pid for process in one.members}
        return any(listener.port == proof.port and listener.pid in own for listener in system.listeners())
    if proof.kind == "process" or one.record.backend != "ring":
        return True
    return holds_ring(one, system)


def holds_ring(one: Sighting, system: System) -> bool:
    """Tell whether the rank has one established connection to each address of the next rank (ring.cpp,
    make_connections)."""
    wanted = Counter(next_addresses(one.record.hosts, one.record.rank))
    if not wanted:
        return True
    held = system.connections([process.pid for process in one.members])
    return not wanted - Counter(remote for remotes in held.values() for remote in remotes)


def log_matches(path: str, pattern: str) -> bool:
    """Tell whether a line of the log matches the regular expression."""
    expression = re.compile(pattern)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return any(expression.search(line) for line in file)
    except OSError:
        return False


def _done(one: Sighting, proof: Proof) -> bool:
    # A short program may be through before anybody looked; a service that left, even with 0, is not up.
    return one.finished and not (one.record.rank == 0 and proof.kind in ("log", "port"))


def _failure(places: Places, one: Sighting) -> Failure:
    path = log_path(places, one.record)
    lines = tail(path)
    if one.exit is not None and one.exit.unborn:
        lines.append(one.exit.unborn)
    if one.exit is None:
        return Failure(one.record.rank, one.state, path, tuple(lines))
    return Failure(one.record.rank, one.state, path, tuple(lines), one.exit.code, one.exit.time)


def _failed(failures: list[Failure], now: float) -> MusterError:
    failures = sorted(failures, key=lambda failure: failure.time or now)
    first = failures[0]
    return MusterError(
        f"Rank {first.rank} should come up",
        "it {}. Its last lines:\n{}".format(first.state, "\n".join(first.last_lines) or "(it wrote nothing)"),
        f"\nIts whole log stays on the node: {first.log}",
        failures=[dict(vars(failure), last_lines=list(failure.last_lines)) for failure in failures],
        now=now,
    )


def _late(places: Places, missing: list[Sighting], proof: Proof, timeout: float, now: float) -> MusterError:
    words = {
        "log": f"its log matches {proof.pattern!r}",
        "port": f"it listens on port {proof.port}",
        "process": "it runs",
        "ring": "it is connected to the next rank",
    }
    failures = [_failure(places, one) for one in missing]
    first = failures[0]
    kind = proof.kind if first.rank == 0 else "ring"
    return MusterError(
        f"Rank {first.rank} should be up within mlx_ready_timeout ({timeout:g} s), that is: {words[kind]}",
        "it is running and not there yet. Its last lines:\n{}".format(
            "\n".join(first.last_lines) or "(it wrote nothing)"
        ),
        f"\nGive it more time with mlx_ready_timeout, or see its log: {first.log}",
        failures=[dict(vars(failure), last_lines=list(failure.last_lines)) for failure in failures],
        now=now,
    )


def _raise_if_torn_down(places: Places, run: str, fence: Fence) -> None:
    # Asked before the ranks are judged: a teardown's signals look like a failure.
    if read_fence(places, run).token != fence.token:
        raise Stopped("The launch should come up", f"a teardown of run {run} passed meanwhile")


def _raise_if_aborted(places: Places, records: Sequence[Record]) -> None:
    # Asked after the ranks are judged: a rank that failed here may be why another node gave up.
    first = records[0]
    if os.path.exists(os.path.join(places.instance(first.run, first.instance), ABORT)):
        raise Stopped("The launch should come up", "it failed on another node, so the ranks here were stood down")
