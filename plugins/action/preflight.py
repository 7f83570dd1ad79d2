# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module preflight and adds what the login printed around it, which only this side of the connection sees."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.mlx.plugins.plugin_utils._login import login_output
from ansible_collections.muster.mlx.plugins.plugin_utils._plan import of_node

display = Display()


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _output = ""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module once."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        if "plan" in arguments:
            arguments = {**of_node(arguments.pop("plan"), variables["inventory_hostname"], "where", "what"), **arguments}
        result.update(self._execute_module(module_args=arguments, task_vars=variables))
        if self._output:
            result["login_output"] = self._output
            display.vv("a login prints on its own, which does no harm: %s" % self._output, host=variables["inventory_hostname"])
        return result

    def _parse_returned_data(self, res: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self._output = login_output(res.get("stdout", ""), res.get("stderr", ""))
        return super()._parse_returned_data(res, *args, **kwargs)
