# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of a launch, first step: check every variable of every host, lay out the ranks.

No node is touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.plugin_utils import _archive, _plan, _variables


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan, or fail with everything that is wrong with the request."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        try:
            plan = self._plan(variables)
        except MusterError as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": False, **plan}

    def _plan(self, variables: dict[str, Any]) -> dict[str, Any]:
        hosts = list(variables["ansible_play_hosts_all"])
        _check_forks(len(hosts))
        spec = _variables.launch_options(self._loader)
        given = {host: _variables.of_host(host, variables, self._templar) for host in hosts}
        _plan.raise_faults(_plan.unknown_variables((name for values in given.values() for name in values), spec))
        wanted = _validated(given, spec)
        plan = _plan.lay_out(wanted, {host: _address(host, variables) for host in hosts})
        files = _archive.collect(next(iter(wanted.values()))["mlx_files"], os.getcwd())
        manifest = _archive.manifest(files)
        for node in plan["nodes"].values():
            node["what"]["files"] = manifest
        plan.update(instance=_plan.new_instance(), issued=time.time(), archive="", size_of_files=_archive.size(files))
        if files and not self._task.check_mode:
            # In Ansible's own temporary folder, which it removes however the play ends.
            plan["archive"] = os.path.join(C.DEFAULT_LOCAL_TMP, "muster-{}.tar".format(plan["instance"]))
            _archive.write_archive(files, plan["archive"])
        return plan


def _validated(given: Mapping[str, Mapping[str, Any]], spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    wanted: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    validator = ArgumentSpecValidator(spec)
    for host, values in given.items():
        checked = validator.validate({name: value for name, value in values.items() if name in spec})
        faults += [f"{host}: {message}" for message in checked.error_messages]
        wanted[host] = checked.validated_parameters
    _plan.raise_faults(faults)
    return wanted


def _address(host: str, variables: dict[str, Any]) -> str:
    values = variables["hostvars"][host]
    if values.get("ansible_connection") == "local":
        return "127.0.0.1"
    return str(values.get("ansible_host", host))


def _check_forks(hosts: int) -> None:
    # All ranks must start within a ring's patience; a second batch would wait for the first, which waits for the
    # second.
    forks = context.CLIARGS.get("forks") or C.DEFAULT_FORKS
    if hosts > forks:
        raise MusterError(
            f"All {hosts} hosts must be worked on at the same time",
            f"Ansible is set to {forks} forks",
            f"Say --forks {hosts}, or set forks in ansible.cfg",
        )
