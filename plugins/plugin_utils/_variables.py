# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's variables, as Ansible holds them, read host by host on the controller."""

from __future__ import annotations

import os
from typing import Any

_PLAYBOOKS = os.path.join(os.path.dirname(__file__), "..", "..", "playbooks")


def launch_options(loader: Any) -> dict[str, Any]:
    """Return the options of the play's own argument spec, so that there is one list of them."""
    spec: dict[str, Any] = loader.load_from_file(os.path.join(_PLAYBOOKS, "launch.meta.yml"))
    return dict(spec["argument_specs"]["launch"]["options"])


def of_host(host: str, variables: dict[str, Any], templar: Any) -> dict[str, Any]:
    """Return a host's `mlx_*` variables, templated.

    A variable of the play (`import_playbook` with `vars`, for example) is not among a host's own; it is
    seen by comparing what this task sees with what its host has, and holds for every host.
    """
    hostvars = variables["hostvars"]
    mine = hostvars[variables["inventory_hostname"]]
    found = {name: hostvars[host][name] for name in hostvars[host] if name.startswith("mlx_")}
    for name, raw in variables.items():
        if name.startswith("mlx_"):
            value = templar.template(raw)
            if name not in mine or mine[name] != value:
                found[name] = value
    return found
