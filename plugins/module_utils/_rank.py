# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module rank does on its node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state
from ansible_collections.muster.mlx.plugins.module_utils._system import Run, this_system


def call(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Bring the node's ranks to the wanted state and return the module's result."""
    # Imported here, since a node compiles whatever it imports at each call, and a teardown needs nothing of a start.
    params = dict(params, issued=params["issued"] or time.time())
    places, system = open_state(params["state_dir"]), this_system(run)
    if params["state"] == "started":
        from ansible_collections.muster.mlx.plugins.module_utils import _started

        return _started.started(places, _started.wish_of(params), system, check)
    from ansible_collections.muster.mlx.plugins.module_utils import _ending

    ending = _ending.ending_of(params)
    if params["state"] != "absent" or params["leftovers"] == "ignore":
        return _ending.ended(places, ending, system, check)
    from ansible_collections.muster.mlx.plugins.module_utils import _leftovers

    return _leftovers.beside(lambda: _ending.ended(places, ending, system, check), params, places, system, check)
