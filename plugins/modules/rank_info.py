#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the MLX ranks of one node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_info
short_description: Look at the MLX ranks of a node
version_added: 0.1.0
description:
  - Returns every recorded rank of a node with what the process table says of it now.
author: Muster developers (@muster-mlx)
extends_documentation_fragment:
  - muster.mlx.attributes
  - muster.mlx.attributes.info
options:
  run:
    description:
      - Name of the run to look at. Without it, all runs.
    type: str
  state_dir:
    description:
      - Where Muster keeps records, logs and receipts on the node.
    type: str
    default: ~/.muster
seealso:
  - module: muster.mlx.rank
"""

EXAMPLES = r"""
---
- name: Look at every run on this node
  muster.mlx.rank_info:
  register: seen

- name: Look at one run
  muster.mlx.rank_info:
    run: demo
"""

RETURN = r"""
ranks:
  description: Every recorded rank of this node.
  returned: always
  type: list
  elements: dict
  contains:
    run:
      description: Name of the run.
      type: str
      returned: always
      sample: main
    instance:
      description: Id of the start that made it.
      type: str
      returned: always
      sample: 20261130T204500Z-0a1b2c3d
    rank:
      description: Number of the rank.
      type: int
      returned: always
      sample: 2
    size:
      description: Number of ranks in the group.
      type: int
      returned: always
      sample: 4
    pid:
      description: Process id, also of a rank that ended; null when it was never started.
      type: int
      returned: always
      sample: 4711
    state:
      description:
        - V(running), V(exited 7), V(killed by SIGKILL), V(dead) when nobody saw how it ended, V(intended) when it
          is being started.
      type: str
      returned: always
      sample: running
    age:
      description: Seconds since it was started, null when it does not run.
      type: float
      returned: always
      sample: 3605.2
    memory:
      description: Resident memory of all its processes in bytes, null when it has none.
      type: int
      returned: always
      sample: 734003200
    processes:
      description: Ids of all its living processes.
      type: list
      elements: int
      returned: always
      sample: [4711]
    ports:
      description: Ports that it was given.
      type: list
      elements: int
      returned: always
      sample: [32325]
    log:
      description: File on the node that holds what it printed.
      type: str
      returned: always
      sample: /Users/me/.muster/runs/main/20261130T204500Z-0a1b2c3d/rank-2/log
    program:
      description: Its argument list.
      type: list
      elements: str
      returned: always
      sample: [/usr/bin/python3, train.py]
damaged:
  description: Records that cannot be believed, with the reason.
  returned: always
  type: list
  elements: dict
  sample: [{"path": "/Users/me/.muster/runs/main/x/rank-0/record.json", "reason": "it is a symlink"}]
quarantine:
  description: Why the node needs a reboot before the next launch, empty when it needs none.
  returned: always
  type: str
  sample: ""
strays:
  description: Processes that carry a run's marker though no record names them.
  returned: always
  type: list
  elements: dict
  sample: [{"run": "main", "pid": 4712, "command": "python3"}]
work:
  description: Working directories of instances that hold something, by run.
  returned: always
  type: dict
  sample: {"main": ["/Users/me/.muster/runs/main/20261130T204500Z-0a1b2c3d/work"]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils import _arguments, _node, _rank_info


def main() -> None:
    """Run the module."""
    module = AnsibleModule(supports_check_mode=True, **_arguments.RANK_INFO)
    _node.finish(module, _rank_info.call)


if __name__ == "__main__":
    main()
