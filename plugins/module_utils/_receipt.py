# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a teardown proved on one node. Pure data and the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

CLEAN, DIRTY, UNKNOWN = "clean", "dirty", "unknown"


@dataclass(frozen=True)
class RankReceipt:
    """How one rank was stood down.

    `signals` are (name, seconds since the teardown began); `seconds` from the first signal to the end,
    None when it did not end or needed none; `state` how it ended; `left` the processes that are still there,
    `stuck` those of them that outlived SIGKILL; `ports` of it that something still listens on.
    """

    rank: int
    instance: str
    pid: int | None
    start: str
    boot: str
    program: tuple[str, ...]
    was: str
    state: str
    signals: tuple[tuple[str, float], ...]
    seconds: float | None
    left: tuple[str, ...]
    stuck: tuple[int, ...]
    ports: tuple[str, ...]
    log: str

    @property
    def verdict(self) -> str:
        """`clean` when nothing of it is left."""
        return DIRTY if self.left or self.ports else CLEAN


@dataclass(frozen=True)
class Receipt:
    """What was proved on a node: `problems` says what keeps it from being clean.

    Wired memory in bytes, None where there is no such figure (Linux). `quarantine` is why the node needs a reboot,
    empty when it needs none.
    """

    run: str
    issued: float
    began: float
    ended: float
    boot: str
    ranks: tuple[RankReceipt, ...]
    problems: tuple[str, ...]
    files_removed: tuple[str, ...]
    files_left: tuple[str, ...]
    wired_before: int | None
    wired_after: int | None
    quarantine: str = ""

    @property
    def verdict(self) -> str:
        """`clean` or `dirty`; that a node is `unknown` only the controller can say."""
        return DIRTY if self.problems or any(rank.verdict != CLEAN for rank in self.ranks) else CLEAN

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        data = asdict(self)
        data["verdict"] = self.verdict
        data["ranks"] = [
            dict(asdict(rank), verdict=rank.verdict, signals=[list(pair) for pair in rank.signals])
            for rank in self.ranks
        ]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}
