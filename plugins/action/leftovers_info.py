# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module leftovers_info."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.mlx.plugins.plugin_utils import _clients
from ansible_collections.muster.mlx.plugins.plugin_utils._node_call import NodeCall


class ActionModule(NodeCall):
    """See the documentation of the module of the same name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module once."""
        result = super().run(tmp, task_vars)
        arguments, variables = dict(self._task.args), task_vars or {}
        if "clients" in arguments:
            arguments["clients"] = _clients.gather(arguments["clients"], variables)
        return {**result, **self.call("leftovers_info", arguments, variables)}
