# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all machines say of their ssh clients, put together: which connections belong to a launcher that lives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._launchers import ssh_clients
from ansible_collections.muster.mlx.plugins.module_utils._system import this_system
from ansible_collections.muster.mlx.plugins.plugin_utils._bootstrap import run_command

display = Display()


def here() -> dict[str, str]:
    """Return what this controller knows of its own ssh clients, by their connection's endpoint.

    Nothing, where it cannot look: then nothing is known, and what hangs on such a connection is not ended.
    """
    try:
        system = this_system(run_command)
        return ssh_clients(system, system.table(), os.geteuid())
    except (MusterError, OSError) as error:
        display.vv(f"no look at the ssh clients of this controller: {error}")
        return {}


def of_hosts(results: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return what the hosts said of theirs, in a result of leftovers_info, leftovers or rank."""
    found: dict[str, str] = {}
    for result in results.values():
        found.update(result.get("ssh_clients") or (result.get("leftovers") or {}).get("ssh_clients") or {})
    return found


def gather(given: Any, variables: dict[str, Any]) -> dict[str, str]:
    """Return the option `clients` for the node: as given, or from the variable of that name that the hosts registered,
    with this controller's own clients."""
    if isinstance(given, str) and given:
        hostvars = variables["hostvars"]
        given = of_hosts({host: dict(hostvars[host].get(given) or {}) for host in variables["ansible_play_hosts_all"]})
    return {**here(), **(given or {})}
