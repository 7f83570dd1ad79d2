# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module leftovers; where foreign ranks are to be ended, with what is known of their launchers."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.mlx.plugins.plugin_utils import _clients
from ansible_collections.muster.mlx.plugins.plugin_utils._node_call import NodeCall


class ActionModule(NodeCall):
    """See the documentation of the module of the same name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module once."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        clients = arguments.pop("clients", None)
        if arguments.get("foreign_ranks") == "kill":
            arguments["clients"] = _clients.gather(clients, variables)
        return {**result, **self.call("leftovers", arguments, variables)}
