# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module leftovers does on its node: look, decide, end foreign ranks, look again, remove files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._finding import END, KEEP, REMOVE, REPORT, Finding
from ansible_collections.muster.mlx.plugins.module_utils._foreign import Wanted
from ansible_collections.muster.mlx.plugins.module_utils._foreign_end import Ended, end_foreign
from ansible_collections.muster.mlx.plugins.module_utils._instances import remove_instances
from ansible_collections.muster.mlx.plugins.module_utils._leftovers_seen import Plan, Scope, View, plan, read
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._quarantine import put_in_quarantine
from ansible_collections.muster.mlx.plugins.module_utils._receipt import DIRTY
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy, policy_of
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state
from ansible_collections.muster.mlx.plugins.module_utils._system import Run, this_system
from ansible_collections.muster.mlx.plugins.module_utils._temporary import EXO, MLX_LAUNCH, Entry, remove


@dataclass(frozen=True)
class Asked:
    """All that is asked for: where to look, whether files are removed or only reported, which foreign ranks are ended,
    and how; `keep` is how many finished instances keep their logs."""

    scope: Scope
    remove: bool
    wanted: Wanted
    policy: Policy
    keep: int


def asked_of(params: Mapping[str, Any], owners: Sequence[str], remove: bool) -> Asked:
    """Turn a module's options into what is asked for."""
    return Asked(
        scope=Scope(tuple(owners), tuple(params["directories"]), dict(params["clients"])),
        remove=remove,
        wanted=Wanted(params["foreign_ranks"] == "kill", frozenset(params["pids"])),
        policy=policy_of(params),
        keep=params["keep"],
    )


def clear(places: Places, asked: Asked, system: System, check: bool) -> dict[str, Any]:
    """Do what is asked for and return the result, with what is not proven gone as `problems`."""
    view = read(places, asked.scope, system)
    todo = _reported(plan(view, asked.wanted), asked)
    result = _result(view, todo)
    problems = _not_foreign(view, asked)
    if check:
        return {**result, "problems": problems}
    ended: list[Ended] = []
    if todo.ranks:
        ended = end_foreign(todo.ranks, asked.policy, system, lambda: read(places, asked.scope, system).foreign)
        problems += [one.describe() for one in ended if one.left]
        _quarantine(places, ended, system)
        view = _freed(read(places, asked.scope, system), ended)
        todo = _reported(plan(view, replace(asked.wanted, kill=False, pids=frozenset())), asked)
    removed, others, words = _remove(todo.files(view, REMOVE))
    problems += words
    if asked.remove:
        done, changed, words = remove_instances(places, view.instances, asked.keep, system)
        removed += done
        others += changed
        problems += words
    result["decisions"] = [one.to_json() for one in _final(result["decisions"], todo, others, ended)]
    result.update(removed=removed, ended=[one.to_json() for one in ended], problems=problems)
    result["changed"] = bool(removed or ended)
    return result


def _final(
    first: Sequence[Mapping[str, Any]], todo: Plan, others: Sequence[Finding], ended: Sequence[Ended]
) -> list[Finding]:
    """Return the decisions as they came out: those about the ended ranks, then the last ones about all the rest."""
    gone = {one.rank.leader.pid for one in ended}
    acted = [Finding(**{"path": "", **one}) for one in first if one.get("pid") in gone]
    changed = {one.path: one for one in others}
    rest = [changed.get(one.path, one) if one.path else one for one in todo.findings if one.pid not in gone]
    return [*rest, *acted]


def _result(view: View, todo: Plan) -> dict[str, Any]:
    files = {one.path: one.reason for one in todo.findings if one.action == REMOVE}
    ranks = {f"process {one.pid}": one.reason for one in todo.findings if one.action == END}
    return {
        "changed": bool(files or ranks),
        "decisions": [one.to_json() for one in todo.findings],
        "foreign": [one.to_json() for one in view.foreign],
        "removed": [],
        "ended": [],
        "ssh_clients": dict(view.clients),
        "diff": {"before": {**files, **ranks}, "after": {}},
    }


def _reported(todo: Plan, asked: Asked) -> Plan:
    if asked.remove:
        return todo
    return replace(
        todo, findings=tuple(replace(one, action=REPORT) if one.action == REMOVE else one for one in todo.findings)
    )


def _freed(view: View, ended: Sequence[Ended]) -> View:
    names = frozenset(
        one.rank.coordination.rpartition("/")[2] for one in ended if not one.left and one.rank.coordination
    )
    return replace(view, evidence=replace(view.evidence, freed=names))


def _remove(entries: Sequence[Entry]) -> tuple[list[str], list[Finding], list[str]]:
    removed, others, problems = [], [], []
    for entry in entries:
        try:
            outcome = remove(entry)
        except OSError as error:
            problems.append(f"{entry.path} could not be removed: {error.strerror}")
            continue
        if outcome == "removed":
            removed.append(entry.path)
        elif outcome == "changed":
            others.append(Finding(entry.owner, KEEP, "it changed while it was looked at", path=entry.path))
    return removed, others, problems


def _not_foreign(view: View, asked: Asked) -> list[str]:
    """Return, in words, which of the processes asked for by pid live and are no foreign ranks: they are not touched."""
    foreign = {process.pid for one in view.foreign for process in one.processes}
    words = []
    for pid in sorted(set(asked.wanted.pids) - foreign):
        process = view.evidence.processes.get(pid)
        if pid in view.own:
            words.append(f"process {pid} is {view.own[pid]}, which teardown.yml stands down; it was not touched")
        elif process is not None:
            words.append(f"process {pid} ({process.command[:60]}) is no foreign rank; it was not touched")
    return words


def _quarantine(places: Places, ended: Sequence[Ended], system: System) -> None:
    stuck = [process for one in ended for process in one.stuck]
    if stuck:
        put_in_quarantine(places, system.boot(), system.now(), "mlx.launch", stuck)


def failure_of(problems: Sequence[str]) -> dict[str, Any]:
    """Return what a module's result gets when something is not proven gone; empty when all is."""
    if not problems:
        return {}
    return {"failed": True, "msg": "Not everything is proven gone on this node: {}.".format("; ".join(problems))}


def beside(
    teardown: Callable[[], dict[str, Any]], params: Mapping[str, Any], places: Places, system: System, check: bool
) -> dict[str, Any]:
    """Tear down, and in the same call remove what others than Muster left over; return the one result of both.

    What is to be ended goes first, since a process that carries the run's marker keeps the receipt from being clean.
    Trouble with leftovers costs neither the teardown nor its receipt.
    """
    asked = asked_of(params, (MLX_LAUNCH, EXO), params["leftovers"] == "remove")
    swept = _swept(places, asked, system, check) if asked.wanted.kill or asked.wanted.pids else None
    result = teardown()
    swept = swept or _swept(places, asked, system, check)
    problems, diff, changed = swept["problems"], swept.pop("diff"), swept.pop("changed")
    result["leftovers"] = swept
    result["changed"] = result["changed"] or changed
    result["diff"] = {"before": {**result["diff"]["before"], **diff["before"]}, "after": result["diff"]["after"]}
    if "receipt" in result:
        receipt = result["receipt"]
        result["receipt"] = {**receipt, "leftovers": swept, "problems": [*receipt["problems"], *problems]}
        if problems:
            result["verdict"] = result["receipt"]["verdict"] = DIRTY
    failed = failure_of(problems)
    words = [result["msg"]] if result.get("failed") else []
    return {**result, **failed, "msg": " ".join([*words, failed["msg"]])} if failed else result


def _swept(places: Places, asked: Asked, system: System, check: bool) -> dict[str, Any]:
    try:
        return clear(places, asked, system, check)
    except (MusterError, OSError) as error:
        nothing: dict[str, Any] = {"decisions": [], "foreign": [], "removed": [], "ended": [], "ssh_clients": {}}
        words = f"what is left over could not be looked at: {error}"
        return {**nothing, "changed": False, "problems": [words], "diff": {"before": {}, "after": {}}}


def call(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Remove what is left over on the node and return the result of the module leftovers."""
    places, system = open_state(params["state_dir"]), this_system(run)
    result = clear(places, asked_of(params, params["owners"], remove=True), system, check)
    return {**result, **failure_of(result["problems"])}
