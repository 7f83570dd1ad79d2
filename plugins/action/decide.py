# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of a launch, third step: from what all nodes showed, keep the run, start it, or replace it."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification, from_options
from ansible_collections.muster.mlx.plugins.plugin_utils import _group, _plan, _variables


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"plan", "seen"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the decision, or fail with the reason why the launch cannot go on."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        plan = self._task.args["plan"]
        hosts = list(plan["nodes"])
        seen = {host: variables["hostvars"][host][self._task.args["seen"]] for host in hosts}
        try:
            _group.check_nodes(seen)
            _group.check_versions(seen)
            _group.check_fences(seen, plan["run"], plan["issued"])
            wanted = {host: self._wanted(host, plan, seen[host]["python"], variables) for host in hosts}
            decision = _group.decide_group(wanted, seen, plan["start"]["replace"])
        except MusterError as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": False, "action": decision.action, "reason": decision.reason}

    def _wanted(self, host: str, plan: dict[str, Any], python: str, variables: dict[str, Any]) -> list[Specification]:
        secrets = _variables.of_host(host, variables, self._templar).get("mlx_secret_env") or {}
        node = plan["nodes"][host]
        words = _plan.words_of(secrets, host, "mlx_secret_env")
        return from_options({**node["where"], **node["what"], "secret_env": words}, python)
