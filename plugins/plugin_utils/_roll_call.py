# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roll call and the receipts as tables. Pure functions from module results to rows, and from rows to lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._receipt import UNKNOWN

RANK_COLUMNS = ("run", "rank", "node", "pid", "state", "age", "memory", "ports", "log")
RECEIPT_COLUMNS = ("run", "rank", "node", "pid", "was", "signals", "seconds", "ended", "verdict")

GOOD, BAD, PLAIN = "good", "bad", "plain"


@dataclass(frozen=True)
class Row:
    """One line of a table: its cells, and whether what it says is good, bad or neither."""

    cells: tuple[str, ...]
    tone: str = PLAIN


def rank_rows(results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the rows of the roll call and the same facts for machines, sorted by run and rank."""
    facts: list[dict[str, Any]] = []
    for host, result in results.items():
        if not result or result.get("unreachable"):
            facts.append({"run": None, "rank": None, "node": host, "state": "unreachable"})
        elif result.get("failed") and "ranks" not in result:
            facts.append({"run": None, "rank": None, "node": host, "state": "unknown"})
        facts += [dict(rank, node=host) for rank in result.get("ranks", [])]
        facts += [_damaged(host, one) for one in result.get("damaged", [])]
        facts += [{**one, "rank": None, "node": host, "state": "no record"} for one in result.get("strays", [])]
    facts.sort(key=lambda fact: (fact["run"] is None, fact["run"] or "", fact["rank"] or 0, fact["node"]))
    return [_rank_row(fact) for fact in facts], facts


def _damaged(host: str, one: Mapping[str, Any]) -> dict[str, Any]:
    run, rank = one["path"].split("/")[-4:-1:2]
    number = int(rank.rpartition("-")[2])
    return {
        "run": run,
        "rank": number,
        "node": host,
        "state": "damaged record",
        "log": one["path"],
        "reason": one["reason"],
    }


def _rank_row(fact: Mapping[str, Any]) -> Row:
    state = str(fact["state"])
    cells = (
        _text(fact["run"]),
        _text(fact["rank"]),
        str(fact["node"]),
        _text(fact.get("pid")),
        state,
        duration(fact.get("age")),
        size(fact.get("memory")),
        ",".join(str(port) for port in fact.get("ports", [])) or "-",
        _text(fact.get("log")),
    )
    good = state in ("running", "exited 0", "would start")
    return Row(cells, GOOD if good else BAD)


def receipt_rows(results: Mapping[str, Mapping[str, Any]], run: str) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the rows of the receipts and the same facts for machines: a row per rank, one per node that had none."""
    rows: list[Row] = []
    facts: list[dict[str, Any]] = []
    for host, result in results.items():
        receipt = result.get("receipt") if result else None
        if receipt is None:
            ranks, verdict = result.get("ranks", []) if result else [], _verdict(result)
            facts.append({"node": host, "run": run, "verdict": verdict})
            if verdict == UNKNOWN and result and not result.get("unreachable"):
                facts[-1]["why"] = str(result.get("msg", "")).rstrip(".")
            rows += [_would_end(host, rank) for rank in ranks] or [_empty(host, run, verdict)]
            continue
        facts.append(dict(receipt, node=host))
        rows += [_receipt_row(host, receipt, rank) for rank in receipt["ranks"]]
        rows += [] if receipt["ranks"] else [_empty(host, run, receipt["verdict"])]
    return rows, facts


def _verdict(result: Mapping[str, Any] | None) -> str:
    if result and not result.get("unreachable") and not result.get("failed"):
        return "not looked at" if "ranks" not in result else "check mode"
    return UNKNOWN


def _receipt_row(host: str, receipt: Mapping[str, Any], rank: Mapping[str, Any]) -> Row:
    signals = ",".join(name for name, dummy in rank["signals"])
    seconds = "-" if rank["seconds"] is None else "{:.2f}".format(rank["seconds"])
    cells = (
        receipt["run"],
        str(rank["rank"]),
        host,
        _text(rank["pid"]),
        rank["was"],
        signals or "-",
        seconds,
        rank["state"],
        rank["verdict"],
    )
    return Row(cells, GOOD if rank["verdict"] == "clean" else BAD)


def _would_end(host: str, rank: Mapping[str, Any]) -> Row:
    cells = (
        rank["run"],
        str(rank["rank"]),
        host,
        _text(rank["pid"]),
        rank["state"],
        "-",
        "-",
        "-",
        "would be stood down",
    )
    return Row(cells)


def _empty(host: str, run: str, verdict: str) -> Row:
    tone = {"clean": GOOD, "check mode": PLAIN, "not looked at": PLAIN}.get(verdict, BAD)
    return Row((run, "-", host, "-", "-", "-", "-", "-", verdict), tone)


def table(columns: Sequence[str], rows: Sequence[Row], width: int | None) -> list[tuple[str, str]]:
    """Return (line, tone) pairs of an aligned table, the head first.

    Where a line would not fit into `width`, the last column goes below its row, so that a terminal shows a table.
    """
    cells = [tuple(columns), *(row.cells for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = []
    folded = width is not None and sum(widths) + 2 * (len(widths) - 1) > width
    shown = len(columns) - 1 if folded else len(columns)
    for number, (line, tone) in enumerate(zip(cells, [PLAIN, *(row.tone for row in rows)], strict=True)):
        lines.append(("  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line[:shown])).rstrip(), tone))
        if folded and number > 0:
            lines.append((f"  {columns[-1]}: {line[-1]}", tone))
    return lines


def joined(launch: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a stand-down's results, with the receipts of the failed start where that had stood its ranks down."""
    found = {}
    for host, result in results.items():
        earlier = launch.get(host, {}).get("receipt")
        done = result.get("receipt")
        if earlier and done and not done["ranks"] and earlier["verdict"] == "clean":
            done = {**done, "ranks": earlier["ranks"]}
        found[host] = {**result, "receipt": done} if done else dict(result)
    return found


def unanswered(facts: Sequence[Mapping[str, Any]]) -> str:
    """Return, in words, what a roll call leaves open: nodes that did not answer, ranks whose record tells nothing."""
    away = [str(fact["node"]) for fact in facts if fact["state"] in ("unreachable", UNKNOWN)]
    words = [f"Not every node answered: {', '.join(away)}. Nothing is known of its ranks."] if away else []
    for fact in facts:
        if fact["state"] == "damaged record":
            words.append(f"{fact['node']}: {fact['log']} cannot be believed ({fact['reason']}); its rank may live.")
        if fact["state"] == "no record":
            words.append(f"{fact['node']}: process {fact['pid']} is of run {fact['run']}, and no record names it.")
    return "\n".join(words)


def unproven(run: str, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, in words, what keeps each node from being proven clean; empty when all are."""
    words = []
    for fact in facts:
        node = fact["node"]
        if fact["verdict"] == "unknown":
            why = fact.get("why") or "it could not be asked"
            words.append(f"- {node}: unknown, {why}; run the teardown again when that is mended")
        words += [f"- {node}: {problem}" for problem in fact.get("problems", [])]
        words += [f"- {node} needs a reboot: {fact['quarantine']}"] if fact.get("quarantine") else []
        for rank in fact.get("ranks", []):
            words += [f"- {node}: rank {rank['rank']}, process {left} is left" for left in rank["left"]]
            words += [f"- {node}: rank {rank['rank']}, {port}" for port in rank["ports"]]
    return [f"Run {run} is not proven gone:", *words] if words else []


def launch_failure(run: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return, in words, why a launch failed: the node whose rank failed first, then in short what else failed.

    A rank that loses its peer ends too, so only the first says what happened. Nodes that were merely stood down
    are not named.
    """
    away = {host: result for host, result in results.items() if result.get("unreachable")}
    failed = {host: one for host, one in results.items() if one.get("failed") and not one.get("stood_down")}
    order = sorted(failed, key=lambda host: failed[host].get("failed_at", float("inf")))
    words = [f"{host} could not be reached: {result.get('msg', '')}" for host, result in away.items()]
    words += [f"{host}: {failed[host].get('msg', '')}" for host in order[:1]]
    words += [f"After that, on {host}: {_in_short(failed[host])}" for host in order[1:]]
    why = "\n".join(words) or "A teardown, or another launch of this run, stood it down."
    return f"The launch of run {run} failed.\n{why}"


def _in_short(result: Mapping[str, Any]) -> str:
    ranks = [f"rank {failure['rank']} {failure['state']}" for failure in result.get("failures", [])]
    return ", ".join(ranks) or str(result.get("msg", ""))


def duration(seconds: float | None) -> str:
    """Return `7s`, `12m`, `3h05m` or `2d04h`; a dash for None."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def size(count: int | None) -> str:
    """Return bytes as `734 MB` or `12.3 GB`; a dash for None."""
    if count is None:
        return "-"
    if count < 1000**3:
        return f"{round(count / 1000**2)} MB"
    return f"{count / 1000**3:.1f} GB"


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
