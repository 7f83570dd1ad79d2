# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each module does on its node: options in, result out. Nothing here knows how the options came."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Mapping

from ansible_collections.muster.mlx.plugins.module_utils import _arguments, _look, _preflight, _rank
from ansible_collections.muster.mlx.plugins.module_utils._macos import Run
from ansible_collections.muster.mlx.plugins.module_utils._run import check_instance_name, check_run_name
from ansible_collections.muster.mlx.plugins.module_utils._start import Launch
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state, runs
from ansible_collections.muster.mlx.plugins.module_utils._system import this_system


def rank(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Bring the node's ranks to the wanted state; see the module rank."""
    params = dict(params, issued=params["issued"] or time.time())
    places = open_state(params["state_dir"])
    system = this_system(run)
    if params["state"] == "started":
        return _rank.started(places, _wish(params), dict(os.environ), system, check)
    return _rank.ended(places, _ending(params), system, check)


def rank_info(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Look at the node's ranks; see the module rank_info."""
    places = open_state(params["state_dir"])
    wanted = [check_run_name(params["run"])] if params["run"] else runs(places)
    seen = _look.snapshot(this_system(run))
    result: dict[str, Any] = {"changed": False, "ranks": [], "damaged": [], "strays": [], "work": {}}
    for name in wanted:
        found, damaged = _look.look(places, name, seen)
        result["ranks"] += [one.to_json(places) for one in found]
        result["damaged"] += [vars(one) for one in damaged]
        strays = _look.strays(places, name, seen)
        result["strays"] += [{"run": name, "pid": one.pid, "command": one.command} for one in strays]
        result["work"][name] = _look.kept_work(places, name)
    return result


def preflight(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Look whether the node's ranks can run; see the module preflight."""
    places = open_state(params["state_dir"])
    asked = _preflight.Asked(
        specifications=tuple(_arguments.specifications(params, sys.executable)),
        python=params["python"] or sys.executable,
        uses_python=bool(params["program"]),
        login=dict(os.environ),
        size_of_files=params["size_of_files"],
    )
    facts = _preflight.preflight(places, asked, run, this_system(run))
    problems = facts["problems"]
    if problems:
        facts.update(failed=True, msg="This node is not ready:\n- %s" % "\n- ".join(problems))
    return dict(facts, changed=False)


def _wish(params: Mapping[str, Any]) -> _rank.Wish:
    return _rank.Wish(
        specifications=tuple(_arguments.specifications(params, sys.executable)),
        launch=Launch(
            check_instance_name(params["instance"]), params["issued"], params["fence"], params["archive"] or ""
        ),
        proof=_arguments.proof(params),
        timeout=params["ready_timeout"],
        replace=params["replace"],
        policy=_arguments.policy(params),
        keep=params["keep"],
    )


def _ending(params: Mapping[str, Any]) -> _rank.Ending:
    return _rank.Ending(
        run=check_run_name(params["run"]),
        instance=check_instance_name(params["instance"]) if params["instance"] else "",
        policy=_arguments.policy(params),
        issued=params["issued"],
        keep=params["keep"] if params["state"] == "absent" else None,
        fence=params["raise_fence"],
    )
