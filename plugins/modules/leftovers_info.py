#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look for what dead runs of Muster, mlx.launch and exo left on one node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: leftovers_info
short_description: Look for what dead runs of Muster, mlx.launch and exo left on a node
version_added: 0.1.0
description:
  - Returns what M(muster.mlx.leftovers) would decide, and every foreign rank.
author: Muster developers (@muster-mlx)
extends_documentation_fragment:
  - muster.mlx.leftovers
  - muster.mlx.leftovers.owners
  - muster.mlx.attributes
  - muster.mlx.attributes.info
options:
  state_dir:
    description:
      - Where Muster keeps records, logs and receipts on the node.
    type: str
    default: ~/.muster
seealso:
  - module: muster.mlx.leftovers
"""

EXAMPLES = r"""
---
- name: Look for leftovers and foreign ranks
  muster.mlx.leftovers_info:
  register: seen
"""

RETURN = r"""
decisions:
  description: Every file and process that was looked at, see RV(muster.mlx.leftovers#module:decisions).
  returned: always
  type: list
  elements: dict
  sample: [{"path": "/tmp/tmp.k3VdQ0xYbN", "owner": "mlx.launch", "action": "remove", "reason": "process 4711 is gone"}]
foreign:
  description: Living MLX ranks that no record of Muster names.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: Process id of the process that the launcher started.
      type: int
      returned: always
      sample: 4711
    rank:
      description: Number of the rank, null when its environment cannot be read.
      type: int
      returned: always
      sample: 2
    owner:
      description: V(mlx.launch), V(muster) when a rank of Muster has lost its record, or V(unknown).
      type: str
      returned: always
      sample: mlx.launch
    launcher:
      description:
        - V(alive), V(gone), or V(unknown) when the rank hangs on an ssh connection and nobody looked at its other end.
      type: str
      returned: always
      sample: gone
    launched_by:
      description: The same in words.
      type: str
      returned: always
      sample: ssh from 198.51.100.9 port 51234, mlx.launch there is gone
    endpoint:
      description: The other end of that ssh connection, empty when there is none.
      type: str
      returned: always
      sample: 198.51.100.9:51234
    age:
      description: Seconds since it was started, null when that cannot be told.
      type: float
      returned: always
      sample: 3605.2
    memory:
      description: Resident memory of all its processes in bytes.
      type: int
      returned: always
      sample: 734003200
    processes:
      description: Ids of all its living processes.
      type: list
      elements: int
      returned: always
      sample: [4711]
    command:
      description: Its command as the process table has it.
      type: str
      returned: always
      sample: python3
    coordination:
      description: Its coordination file, empty when its environment names none.
      type: str
      returned: always
      sample: /tmp/tmp.x8UwTz1LmA
    pid_file:
      description: The pid file of C(mlx.launch) that names it, empty when there is none.
      type: str
      returned: always
      sample: /tmp/tmp.k3VdQ0xYbN
ssh_clients:
  description:
    - For each connection of an ssh client of this user on this node, by its own V(ip:port), whether who started it is
      V(alive) or V(gone). From both ends follows whether the launcher of a rank lives.
  returned: always
  type: dict
  sample: {"198.51.100.1:51234": "gone"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils import _arguments, _leftovers_info, _node


def main() -> None:
    """Run the module."""
    module = AnsibleModule(supports_check_mode=True, **_arguments.LEFTOVERS_INFO)
    _node.finish(module, _leftovers_info.call)


if __name__ == "__main__":
    main()
