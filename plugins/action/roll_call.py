# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the roll call or the receipts of all hosts once, whatever callbacks there are, and returns the same facts."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.mlx.plugins.plugin_utils import _clients, _leftover_rows, _roll_call, _terminal
from ansible_collections.muster.mlx.plugins.plugin_utils._plan import new_instance

display = Display()

Results = dict[str, dict[str, Any]]
"""What a task registered, by host; empty where it did not run."""


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"results", "show", "run", "receipts", "launch"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Show the table, and return as `problem` what a playbook should fail with."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        args = self._task.args
        hosts = variables["ansible_play_hosts_all"]
        results = _registered(args["results"], hosts, variables)
        if args.get("show") == "leftovers":
            return {**result, **self._leftovers(results, kept=True), "problem": _problem(results)}
        if args.get("show", "ranks") == "receipts":
            launch = _registered(args["launch"], hosts, variables) if args.get("launch") else {}
            return {**result, **self._receipts(results, str(args.get("run", "main")), launch)}
        rows, facts = _roll_call.rank_rows(results)
        self._show("ROLL CALL", _roll_call.RANK_COLUMNS, rows, "no rank is recorded on {}".format(", ".join(hosts)))
        self._show_notes(results)
        return {**result, "changed": False, "ranks": facts, "problem": _roll_call.unanswered(facts)}

    def _receipts(self, results: Results, run: str, launch: Results) -> dict[str, Any]:
        rows, facts = _roll_call.receipt_rows(_roll_call.joined(launch, results), run)
        self._show("RECEIPTS", _roll_call.RECEIPT_COLUMNS, rows, "no host")
        answer: dict[str, Any] = {"changed": False, "receipts": facts, **self._leftovers(results, kept=False)}
        if not self._task.check_mode and self._task.args.get("receipts"):
            answer["directory"] = self._keep(facts, run)
        words = [_roll_call.launch_failure(run, launch)] if launch else []
        answer["problem"] = "\n".join(words + _roll_call.unproven(run, facts))
        return answer

    def _leftovers(self, results: Results, kept: bool) -> dict[str, Any]:
        """Show what was left over; a teardown without the files that stay, of which there may be many."""
        found = _leftover_rows.leftovers_of(results)
        waiting = any(rank["endpoint"] for part in found.values() for rank in part["foreign"])
        clients = {**_clients.of_hosts(results), **(_clients.here() if waiting else {})}
        rows, facts = _leftover_rows.foreign_rows(found, clients)
        files = _leftover_rows.leftover_rows(found, kept)
        if files or kept:
            self._show("LEFTOVERS", _leftover_rows.LEFTOVER_COLUMNS, files, "nothing is left over")
        if rows:
            self._show("FOREIGN RANKS", _leftover_rows.FOREIGN_COLUMNS, rows, "")
            if any(fact["action"] == "left" for fact in facts):
                display.display(_leftover_rows.HOW_TO_END, stderr=_for_machines())
        return {"changed": False, "foreign": facts} if found else {"changed": False}

    def _keep(self, facts: list[dict[str, Any]], run: str) -> str:
        # Named like an instance, so that two teardowns in one second do not write over each other.
        folder = os.path.join(os.getcwd(), os.path.expanduser(self._task.args["receipts"]), run, new_instance())
        try:
            os.makedirs(folder, exist_ok=True)
            for fact in facts:
                with open(
                    os.path.join(folder, "{}.json".format(fact["node"].replace(os.sep, "_"))), "w", encoding="utf-8"
                ) as file:
                    json.dump(fact, file, indent=1, sort_keys=True)
                    file.write("\n")
        except OSError as error:
            display.warning(
                f"The receipts could not be written to {folder} ({error.strerror}); each node keeps its own."
            )
            return ""
        display.display(f"receipts: {folder}", stderr=_for_machines())
        return folder

    def _show(self, title: str, columns: tuple[str, ...], rows: list[_roll_call.Row], empty: str) -> None:
        colors = {_roll_call.GOOD: C.COLOR_OK, _roll_call.BAD: C.COLOR_ERROR, _roll_call.PLAIN: None}
        stderr = _for_machines()
        display.display(f"\n{title}", stderr=stderr)
        if not rows:
            display.display(empty, stderr=stderr)
            return
        width = _terminal.WIDTH
        for line, tone in _roll_call.table(columns, rows, width):
            display.display(line, color=colors[tone], stderr=stderr)

    @staticmethod
    def _show_notes(results: Results) -> None:
        for host, result in results.items():
            if result.get("quarantine"):
                display.display(f"quarantine: {host} needs a reboot, {result['quarantine']}", stderr=_for_machines())
            for folders in (result.get("work") or {}).values():
                for folder in folders:
                    display.display(f"work: {folder} on {host}", stderr=_for_machines())


def _problem(results: Results) -> str:
    return "\n".join(_leftover_rows.not_cleared(results))


def _registered(name: str, hosts: list[str], variables: dict[str, Any]) -> Results:
    return {host: dict(variables["hostvars"][host].get(name) or {}) for host in hosts}


def _for_machines() -> bool:
    # A callback that prints one JSON document owns stdout; the table must not break it.
    return "json" in C.config.get_config_value("DEFAULT_STDOUT_CALLBACK")
