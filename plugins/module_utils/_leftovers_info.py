# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module leftovers_info does on its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._foreign import Wanted
from ansible_collections.muster.mlx.plugins.module_utils._leftovers_seen import Scope, plan, read
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state
from ansible_collections.muster.mlx.plugins.module_utils._system import Run, this_system


def call(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Look for what is left over on the node and return the result of the module leftovers_info."""
    places, system = open_state(params["state_dir"]), this_system(run)
    scope = Scope(tuple(params["owners"]), tuple(params["directories"]), dict(params["clients"]))
    view = read(places, scope, system)
    found = plan(view, Wanted(kill=False, pids=()))
    return {
        "changed": False,
        "decisions": [one.to_json() for one in found.findings],
        "foreign": [one.to_json() for one in view.foreign],
        "ssh_clients": dict(view.clients),
    }
