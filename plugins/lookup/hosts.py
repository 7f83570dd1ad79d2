# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a playbook of this collection acts on."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts
short_description: The hosts that a playbook of this collection acts on
version_added: 0.1.0
author: Muster developers (@muster-mlx)
description:
  - Returns the names of the hosts that C(mlx_hosts) selects (the group C(mlx) without it), in the inventory's order,
    as far as C(--limit) leaves them.
  - Fails when a name of the pattern is unknown, or when no host is left. Ansible itself would skip such a play and
    report success.
"""

EXAMPLES = r"""
---
- name: Act on the hosts of the cluster
  hosts: "{{ query('muster.mlx.hosts') }}"
  gather_facts: false
  tasks: []
"""

RETURN = r"""
_raw:
  description: Names of the hosts.
  type: list
  elements: str
"""

from typing import Any

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.plugin_utils import _terminal
from ansible_collections.muster.mlx.plugins.plugin_utils._hosts import check_selection, pattern_of


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    width = _terminal.WIDTH  # asked here, for the workers that draw tables

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return the hosts' names."""
        # A syntax check comes without an inventory, and selects no hosts.
        if context.CLIARGS.get("syntax"):
            return ["localhost"]
        known = variables or {}
        pattern = pattern_of(self._templar.template(known.get("mlx_hosts")))
        limit = known.get("ansible_limit") or "all"
        groups = known.get("groups") or {}
        manager = InventoryManager(self._loader, parse=False)
        for group, hosts in groups.items():
            manager.add_group(group)
            for host in hosts:
                manager.add_host(host, group=group)
        selected = [host.name for host in manager.get_hosts(pattern=pattern)]
        within = {host.name for host in manager.get_hosts(pattern=limit)}
        # Ansible knows localhost without an inventory; no limit was meant to leave it out then.
        if selected == ["localhost"] and limit == "all":
            within.add("localhost")
        try:
            return check_selection(pattern, selected, within, limit, [*groups, *groups.get("all", [])])
        except MusterError as error:
            raise AnsibleLookupError(str(error)) from error
