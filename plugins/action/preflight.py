# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module preflight and adds what the login printed around it, which only this side of the connection sees."""

from __future__ import annotations

import time
from typing import Any

from ansible.utils.display import Display
from ansible_collections.muster.mlx.plugins.plugin_utils._node_call import NodeCall
from ansible_collections.muster.mlx.plugins.plugin_utils._plan import of_node

display = Display()


class ActionModule(NodeCall):
    """See the documentation of the module of the same name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module once."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        if "plan" in arguments:
            plan = arguments.pop("plan")
            options = of_node(plan, variables["inventory_hostname"], "where", "what")
            arguments = {**options, "size_of_files": plan["size_of_files"], **arguments}
        result.update(self.call("preflight", arguments, variables))
        result["answered"] = time.time()
        if self.login_output:
            result["login_output"] = self.login_output
            words = f"a login prints on its own, which does no harm: {self.login_output}"
            display.vv(words, host=variables["inventory_hostname"])
        return result
