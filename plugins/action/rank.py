# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module rank: seals secrets, brings mlx_files over, and ends the wait on this node when another one fails."""

from __future__ import annotations

import base64
import json
import os
import shlex
import time
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.muster.mlx.plugins.module_utils._decision import KEEP, START
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.plugin_utils import _clients, _variables
from ansible_collections.muster.mlx.plugins.plugin_utils._node_call import NodeCall
from ansible_collections.muster.mlx.plugins.plugin_utils._plan import of_node, words_of
from ansible_collections.muster.mlx.plugins.plugin_utils._watch import Watch

_CLOCK_OFF = 1.0  # seconds


class ActionModule(NodeCall):
    """See the documentation of the module of the same name."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module once."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        started = arguments.get("state", "started") == "started"
        arguments = {"issued": time.time(), **self._expand(arguments, started, variables)}
        archive = arguments.pop("archive", None)
        clients = arguments.pop("clients", None)
        if arguments.get("foreign_ranks") == "kill":
            arguments["clients"] = _clients.gather(clients, variables)
        if started and not self._task.check_mode:
            if archive:
                arguments["archive"] = self._bring(archive)
            return {**result, **self._start(arguments, variables)}
        return {**result, **self.call("rank", arguments, variables)}

    def _expand(self, arguments: dict[str, Any], started: bool, variables: dict[str, Any]) -> dict[str, Any]:
        """Turn the plan of a launch, and what this node showed, into the module's options; those given by hand win."""
        plan, seen = arguments.pop("plan", None), arguments.pop("seen", {})
        host = variables["inventory_hostname"]
        secrets = arguments.pop("secret_env", None) or {}
        if plan and not started:
            return {**of_node(plan, host, "where", "stopping"), **arguments}
        if plan:
            secrets = _variables.of_host(host, variables, self._templar).get("mlx_secret_env") or {}
            chosen = {name: value for name, value in plan["start"].items() if value is not None}
            chosen.update({name: seen[name] for name in ("state_dir", "fence") if name in seen})
            decision = arguments.pop("decision", "start")
            archive = plan["archive"] if decision != KEEP else ""
            chosen.update(instance=plan["instance"], issued=plan["issued"], archive=archive)
            chosen["expect"] = KEEP if decision == KEEP else START
            arguments = {**of_node(plan, host, "where", "what", "stopping"), **chosen, **arguments}
        return {**arguments, "secret_env": self._sealed(secrets, variables)} if started else arguments

    def _sealed(self, secrets: dict[str, Any], variables: dict[str, Any]) -> str:
        # The module sees one opaque word. A value such as "1" as a no_log value of its own would blank every 1 of the
        # result.
        try:
            words = words_of(secrets, variables["inventory_hostname"], "mlx_secret_env")
        except MusterError as error:
            raise AnsibleActionFail(str(error)) from error
        return base64.b64encode(json.dumps(words).encode()).decode()

    def _bring(self, archive: str) -> str:
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "mlx_files.tar")
        self._transfer_file(archive, remote)
        self._fixup_perms2((self._connection._shell.tmpdir, remote))
        return str(remote)

    def _start(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        mark = os.path.join(C.DEFAULT_LOCAL_TMP, "muster-{}.failed".format(arguments["instance"]))
        folder = "{}/runs/{}/{}".format(
            self._remote_expand_user(arguments.get("state_dir", "~/.muster")),
            arguments.get("run", "main"),
            arguments["instance"],
        )
        command = "test -d {} && touch {}".format(shlex.quote(folder), shlex.quote(folder + "/abort"))
        with Watch(mark, lambda: self._low_level_execute_command(command)["rc"] == 0) as watch:
            try:
                answer: dict[str, Any] = self.call("rank", arguments, variables)
            except AnsibleConnectionFailure:
                watch.failed(variables["inventory_hostname"])
                raise
            if answer.get("failed") and not answer.get("stood_down"):
                watch.failed(variables["inventory_hostname"])
                answer["failed_at"] = failed_at(answer, time.time())
        if answer.get("failed") and "receipt" in answer:
            answer["receipt"] = brief(answer["receipt"])
        if answer.get("stood_down") and watch.first():
            answer["msg"] = f"Stood down, since the launch failed on {watch.first()}."
        return answer


def failed_at(answer: dict[str, Any], received: float) -> float:
    """Return when a node's first rank failed, on a time scale that all nodes share, in epoch seconds.

    That is the node's own clock, which agrees with the others to milliseconds where clocks are kept, and the way of an
    answer takes longer than a rank needs to follow its peer. A clock that is plainly off is corrected by its distance.
    """
    times = [failure["time"] for failure in answer.get("failures", []) if failure["time"] is not None]
    if not times or "now" not in answer:
        return received
    off = answer["now"] - received
    return float(min(times) - (off if abs(off) > _CLOCK_OFF else 0.0))


def brief(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return of a receipt what a failed start should show; the whole of it is on the node."""
    names = ("rank", "pid", "was", "signals", "seconds", "state", "left", "ports", "verdict")
    ranks = [{name: rank[name] for name in names} for rank in receipt["ranks"]]
    return {"verdict": receipt["verdict"], "problems": receipt["problems"], "ranks": ranks}
