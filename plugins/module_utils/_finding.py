# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One decision about a file or a process that may be left over, with its reason. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REMOVE, KEEP, REPORT, END = "remove", "keep", "report", "end"


@dataclass(frozen=True)
class Finding:
    """What was decided about a `path` or about a process (`pid`).

    `owner` is whose it is, `action` one of REMOVE and KEEP for files, END and REPORT for processes.
    """

    owner: str
    action: str
    reason: str
    path: str = ""
    pid: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain types: `path` or `pid`, and the rest."""
        what: dict[str, Any] = {"path": self.path} if self.pid is None else {"pid": self.pid}
        return {**what, "owner": self.owner, "action": self.action, "reason": self.reason}
