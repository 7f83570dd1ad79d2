# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leftovers and foreign ranks of all hosts as tables. Pure functions from module results to rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._launchers import Launcher, with_clients
from ansible_collections.muster.mlx.plugins.plugin_utils._roll_call import BAD, GOOD, PLAIN, Row, duration, size

LEFTOVER_COLUMNS = ("node", "owner", "action", "what", "reason")
FOREIGN_COLUMNS = ("node", "pid", "rank", "owner", "launcher", "age", "memory", "action", "command")

HOW_TO_END = (
    "mlx_foreign_ranks=kill ends foreign ranks whose launcher is gone; "
    "clean.yml with mlx_pids, a list of pids per host, ends any of them."
)


def leftovers_of(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return what each host said of leftovers: by a module of its own, or by the one that stood its ranks down."""
    found = {host: result.get("leftovers", result) for host, result in results.items() if result}
    return {host: part for host, part in found.items() if "decisions" in part}


def leftover_rows(found: Mapping[str, Mapping[str, Any]], kept: bool) -> list[Row]:
    """Return the rows of files and instances, with `kept` also of those that stay."""
    rows = []
    for host, part in found.items():
        for one in part["decisions"]:
            if "path" in one and (kept or one["action"] != "keep"):
                cells = (host, one["owner"], one["action"], one["path"], one["reason"])
                rows.append(Row(cells, {"remove": GOOD, "report": BAD}.get(one["action"], PLAIN)))
    return rows


def foreign_rows(
    found: Mapping[str, Mapping[str, Any]], clients: Mapping[str, str]
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the rows of the foreign ranks and the same facts for machines; `clients` tells of the other ends."""
    rows, facts = [], []
    for host, part in found.items():
        actions = {one["pid"]: one["action"] for one in part["decisions"] if "pid" in one}
        ended = {one["pid"]: one for one in part.get("ended", [])}
        for rank in part["foreign"]:
            known = with_clients(Launcher(rank["launcher"], rank["launched_by"], rank["endpoint"]), clients)
            fact = {**rank, "node": host, "launcher": known.state, "launched_by": known.words}
            fact["action"] = _outcome(actions.get(rank["pid"], "report"), ended.get(rank["pid"]))
            facts.append(fact)
            rows.append(_foreign_row(fact))
    return rows, facts


def _outcome(action: str, ended: Mapping[str, Any] | None) -> str:
    if ended is None:
        return {"end": "would be ended"}.get(action, "left")
    return "not gone" if ended["left"] else "ended"


def _foreign_row(fact: Mapping[str, Any]) -> Row:
    cells = (
        fact["node"],
        str(fact["pid"]),
        "-" if fact["rank"] is None else str(fact["rank"]),
        fact["owner"],
        fact["launched_by"],
        duration(fact["age"]),
        size(fact["memory"]),
        fact["action"],
        fact["command"],
    )
    return Row(cells, {"ended": GOOD, "would be ended": PLAIN}.get(fact["action"], BAD))


def not_cleared(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return, in words, what keeps each node from being proven free of leftovers; empty when all are."""
    words = []
    for host, result in results.items():
        if not result or result.get("unreachable"):
            words.append(f"- {host}: unknown, it could not be asked")
        elif result.get("failed"):
            words += [f"- {host}: {problem}" for problem in result.get("problems") or [result.get("msg", "it failed")]]
    return ["Not every node is proven free of leftovers:", *words] if words else []
