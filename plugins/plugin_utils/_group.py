# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do with a run as a whole, from what every node showed. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._decision import KEEP, REPLACE, START, Decision, decide
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting
from ansible_collections.muster.mlx.plugins.module_utils._process import Process
from ansible_collections.muster.mlx.plugins.module_utils._run import Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification


def decide_group(
    wanted: Mapping[str, Sequence[Specification]], seen: Mapping[str, Mapping[str, Any]], replace: bool
) -> Decision:
    """Decide for the whole run. `seen` is each host's preflight result.

    Raises MusterError when a living run differs from what is wanted and `replace` is off.
    """
    decisions: dict[str, Decision] = {}
    words: list[str] = []
    for host, view in seen.items():
        words += [f"{host}: {altered}" for altered in view["altered"]]
        try:
            decisions[host] = _decide_host(wanted[host], view, replace)
        except MusterError as error:
            words += [f"{host}: {word}" for word in error.facts["differences"]]
    if words and not replace:
        run = next(iter(wanted.values()))[0].run
        raise MusterError(
            f"Run {run} should be as specified",
            "it is running otherwise:\n- {}".format("\n- ".join(words)),
            "\nLaunch under another mlx_run, tear it down first, or say mlx_replace=true to start it anew",
        )
    instances = {one["record"]["instance"] for view in seen.values() for one in view["records"] if one["members"]}
    if len(instances) > 1:
        words.append("ranks of {} instances are alive: {}".format(len(instances), ", ".join(sorted(instances))))
    return _join(decisions, words)


def _decide_host(wanted: Sequence[Specification], view: Mapping[str, Any], replace: bool) -> Decision:
    found = [_sighting(one) for one in view["records"]]
    places = Places(view["state_dir"])
    works = {one.record.instance: places.work(one.record.run, one.record.instance) for one in found}
    return decide(wanted, found, works, replace)


def _join(decisions: Mapping[str, Decision], words: Sequence[str]) -> Decision:
    actions = {decision.action for decision in decisions.values()}
    if actions == {START}:
        return Decision(START, "no rank of it is running")
    if actions == {KEEP} and not words:
        return Decision(KEEP)
    reasons = [f"{host}: {decision.reason}" for host, decision in decisions.items() if decision.action != KEEP]
    return Decision(REPLACE, "; ".join([*words, *reasons]))


def _sighting(view: Mapping[str, Any]) -> Sighting:
    record = Record.from_json(view["record"])
    processes = tuple(Process(**one) for one in view["members"])
    return Sighting(record, None, view["alive"], processes, 0.0, record.boot)


def check_versions(seen: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise MusterError, naming node by node, when MLX is not the same version everywhere."""
    versions = {host: view["mlx_version"] for host, view in seen.items() if view.get("mlx_version")}
    if len(set(versions.values())) > 1:
        raise MusterError(
            "All nodes of a group need the same version of mlx",
            ", ".join("{} has {}".format(*pair) for pair in versions.items()),
            "Install one version on all of them, or set mlx_python per host",
        )


def check_nodes(seen: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise MusterError when two hosts of the inventory are one machine with one state directory, so share records."""
    known: dict[tuple[str, str], str] = {}
    for host, view in seen.items():
        place = (view["boot"], view["state_dir"])
        if place in known:
            raise MusterError(
                "Each host of the inventory has a state directory of its own",
                f"{known[place]} and {host} are the same machine and both use {view['state_dir']}",
                "Use one host with mlx_slots, or set mlx_state_dir for each",
            )
        known[place] = host


def check_fences(seen: Mapping[str, Mapping[str, Any]], run: str, issued: float) -> None:
    """Raise MusterError when a teardown passed on a node since this launch was `issued` (controller's clock).

    The age of a node's fence and the time since the issue are compared at the same moment, that of the node's answer.
    Both are durations, each by one clock, so the clocks of controller and nodes may differ.
    """
    late = [
        host
        for host, view in seen.items()
        if view["fence_age"] is not None and view["fence_age"] < view["answered"] - issued
    ]
    if late:
        raise MusterError(
            f"Run {run} should start",
            "a teardown of it passed on {} after this launch was issued, so nothing was started".format(
                ", ".join(late)
            ),
            "Launch again if it is still wanted",
        )
