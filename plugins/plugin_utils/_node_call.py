# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of one of Muster's modules on one node.

Ansible sends a module with its whole module_utils, and the node spends most of the call on importing them.
Where Ansible would send the module through standard input anyway (pipelining) and the node's interpreter is known,
Muster sends its own part only, to the same interpreter by the same connection. Everywhere else Ansible's way is
taken; both run the same code on the node.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.muster.mlx.plugins.module_utils import _arguments
from ansible_collections.muster.mlx.plugins.plugin_utils import _bootstrap
from ansible_collections.muster.mlx.plugins.plugin_utils._login import login_output

_MODULE_UTILS = os.path.join(os.path.dirname(__file__), "..", "module_utils")
_ENTRIES = {
    "leftovers": _arguments.LEFTOVERS,
    "leftovers_info": _arguments.LEFTOVERS_INFO,
    "preflight": _arguments.PREFLIGHT,
    "rank": _arguments.RANK,
    "rank_info": _arguments.RANK_INFO,
}


class NodeCall(ActionBase):
    """An action that calls its module. `login_output` is what the login printed around the answer."""

    login_output = ""

    def call(self, entry: str, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module `entry` with these options and return its result."""
        python = interpreter(variables)
        if python is None or not self._is_pipelining_enabled("new"):
            answer: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=variables)
            return answer
        program = compose(entry, validated(entry, arguments), self._task.check_mode)
        command = f"{self._compute_environment_string()} {self._connection._shell.quote(python)} -I -S -X utf8 -"
        done = self._low_level_execute_command(command.strip(), in_data=program.encode("utf-8", "surrogatepass"))
        self.login_output, answer = parse_answer(done)
        return answer

    def _parse_returned_data(self, res: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self.login_output = login_output(res.get("stdout", ""), res.get("stderr", ""))
        return super()._parse_returned_data(res, *args, **kwargs)


def interpreter(variables: dict[str, Any]) -> str | None:
    """Return the path of the node's interpreter where Ansible knows it already, set or discovered."""
    named = str(variables.get("ansible_python_interpreter", ""))
    if os.path.isabs(named):
        return named
    found = variables.get("ansible_facts", {}).get("discovered_interpreter_python")
    return str(found) if found and named in ("", "auto", "auto_silent") else None


def validated(entry: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the options checked and completed, as AnsibleModule does it on the node; raise AnsibleActionFail."""
    checked = ArgumentSpecValidator(**_ENTRIES[entry]).validate(arguments)
    unknown = sorted(".".join(path) for path in checked.unsupported_parameters)
    if unknown:
        raise AnsibleActionFail(f"Unsupported parameters for muster.mlx.{entry}: {', '.join(unknown)}")
    if checked.error_messages:
        raise AnsibleActionFail("; ".join(checked.error_messages))
    return dict(checked.validated_parameters)


def compose(entry: str, params: dict[str, Any], check: bool) -> str:
    """Return the program for the node: the bootstrap, Muster's module_utils as texts, and the call."""
    texts = {}
    for name in sorted(os.listdir(_MODULE_UTILS)):
        if name.endswith(".py") and name != "_node.py":
            with open(os.path.join(_MODULE_UTILS, name), encoding="utf-8") as file:
                texts[name[:-3]] = file.read()
    with open(_bootstrap.__file__, encoding="utf-8") as file:
        bootstrap = file.read()
    return f"{bootstrap}\n\nserve({texts!r}, {entry!r}, {json.dumps(params)!r}, {check!r})\n"


def parse_answer(done: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return what the login printed, and the module's result; a failed result where there is none."""
    before, mark, answer = done.get("stdout", "").partition("\n" + _bootstrap.MARK)
    noise = login_output(before, done.get("stderr", "") if mark else "")
    if mark:
        return noise, json.loads(answer.splitlines()[0])
    words = (done.get("stderr", "") + before).strip()[-1000:]
    return "", {
        "failed": True,
        "changed": False,
        "msg": "The node's interpreter did not answer (exit code {}): {}".format(done.get("rc"), words or "no output"),
    }
