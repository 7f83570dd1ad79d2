#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what dead runs of Muster, mlx.launch and exo left on one node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: leftovers
short_description: Remove what dead runs of Muster, mlx.launch and exo left on a node
version_added: 0.1.0
description:
  - Looks at what dead runs left on a node, decides about each file and process with a reason, and removes what is left
    over for sure.
  - Of C(mlx.launch) these are files in a temporary directory named like C(mktemp) names them that hold exactly one
    process id, whose process is gone, or exactly a coordination file that no process uses. It leaves two of them per
    rank, also when all went well.
  - Of exo these are its coordination files. As exo does not tell which it uses, those written since the exo that is
    running was started are kept.
  - Of Muster these are records, coordination files and copies of instances whose ranks are gone. Logs, receipts and
    what a program wrote stay.
  - No symlink is followed, no file of another user is read, a file that a process has open stays, and so does
    everything that is not exactly what it should be.
  - Foreign ranks, that is living MLX ranks that no record names, are shown, and ended on request.
author: Muster developers (@muster-mlx)
extends_documentation_fragment:
  - muster.mlx.leftovers
  - muster.mlx.leftovers.owners
  - muster.mlx.leftovers.foreign
  - muster.mlx.run.stopping
  - muster.mlx.attributes
attributes:
  check_mode:
    description: Can run in check mode and return what it would do without changing the node.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: full
  idempotent:
    description: When run twice in a row, the second run returns RV(ignore:changed=false).
    support: full
options:
  state:
    description:
      - Nothing is left over.
    type: str
    choices: [absent]
    default: absent
  state_dir:
    description:
      - Where Muster keeps records, logs and receipts on the node.
    type: str
    default: ~/.muster
  keep:
    description:
      - How many finished instances keep their logs and receipts on the node.
    type: int
    default: 10
seealso:
  - module: muster.mlx.leftovers_info
  - module: muster.mlx.rank
"""

EXAMPLES = r"""
---
- name: Remove what is left over, and show foreign ranks
  muster.mlx.leftovers:
  register: cleaned

- name: End two foreign ranks though their mlx.launch lives
  muster.mlx.leftovers:
    pids: [4711, 4712]
"""

RETURN = r"""
decisions:
  description: Every file and every process that was decided about, also those that were left.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file, or the folder of an instance of Muster.
      type: str
      returned: unless it is a process
      sample: /tmp/tmp.k3VdQ0xYbN
    pid:
      description: The process.
      type: int
      returned: for a process
      sample: 4711
    owner:
      description: Whose it is, V(muster), V(mlx.launch), V(exo) or V(unknown).
      type: str
      returned: always
      sample: mlx.launch
    action:
      description: V(remove) or V(keep) for a file, V(end) or V(report) for a process.
      type: str
      returned: always
      sample: remove
    reason:
      description: Why.
      type: str
      returned: always
      sample: its process 4711 is gone
foreign:
  description: The foreign ranks as they were found, see RV(muster.mlx.leftovers_info#module:foreign).
  returned: always
  type: list
  elements: dict
  sample: [{"pid": 4711, "rank": 2, "owner": "mlx.launch", "launcher": "gone", "age": 3605.2, "memory": 734003200}]
removed:
  description: Files that were removed.
  returned: success, or when something is not proven gone
  type: list
  elements: str
  sample: [/tmp/tmp.k3VdQ0xYbN]
ended:
  description: Foreign ranks that were ended, with the signals sent and when, seconds to the end, and processes left.
  returned: success, or when something is not proven gone
  type: list
  elements: dict
  sample: [{"pid": 4711, "rank": 2, "signals": [["SIGTERM", 0.0]], "seconds": 0.04, "left": []}]
problems:
  description: What is not proven gone, in words. The module fails unless it is empty.
  returned: success, or when something is not proven gone
  type: list
  elements: str
  sample: []
ssh_clients:
  description: See RV(muster.mlx.leftovers_info#module:ssh_clients).
  returned: always
  type: dict
  sample: {"198.51.100.1:51234": "gone"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils import _arguments, _leftovers, _node


def main() -> None:
    """Run the module."""
    module = AnsibleModule(supports_check_mode=True, **_arguments.LEFTOVERS)
    _node.finish(module, _leftovers.call)


if __name__ == "__main__":
    main()
