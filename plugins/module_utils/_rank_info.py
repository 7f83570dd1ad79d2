# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module rank_info does on its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._look import kept_work, settle, snapshot, strays
from ansible_collections.muster.mlx.plugins.module_utils._quarantine import read_quarantine
from ansible_collections.muster.mlx.plugins.module_utils._run import check_run_name
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state, runs
from ansible_collections.muster.mlx.plugins.module_utils._system import Run, this_system


def call(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Look at the node's ranks and return the module's result."""
    places, system = open_state(params["state_dir"]), this_system(run)
    wanted = [check_run_name(params["run"])] if params["run"] else runs(places)
    result: dict[str, Any] = {"changed": False, "ranks": [], "damaged": [], "strays": [], "work": {}}
    for name in wanted:
        found, damaged = settle(places, name, system)
        result["ranks"] += [one.to_json(places) for one in found]
        result["damaged"] += [vars(one) for one in damaged]
        result["work"][name] = kept_work(places, name)
    seen = snapshot(system)
    note = read_quarantine(places, seen.boot)
    result["quarantine"] = note.reason if note else ""
    for name in wanted:
        result["strays"] += [
            {"run": name, "pid": one.pid, "command": one.command} for one in strays(places, name, seen)
        ]
    return result
