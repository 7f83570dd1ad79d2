#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin roll_call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roll_call
short_description: Show the ranks, the receipts or the leftovers of all hosts as one table
version_added: 0.1.0
description:
  - Shows one table, once, whatever callback plugins the user has, and returns the same facts.
  - The table goes to stdout, or to stderr where the stdout callback prints JSON.
  - Returns RV(problem) when a node could not be asked, and for receipts and leftovers when a node is not proven clean.
  - Works on the controller only and touches no node. Use it with C(run_once).
author: Muster developers (@muster-mlx)
attributes:
  check_mode:
    description: Can run in check mode and return what it would do without changing anything.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: N/A
    details: It changes no node.
  idempotent:
    description: When run twice in a row, the second run returns RV(ignore:changed=false).
    support: full
  platform:
    description: Systems of the controller on which it works.
    platforms: macOS, Linux
    support: full
options:
  results:
    description:
      - Name of the variable in which every host registered the result of M(muster.mlx.rank), M(muster.mlx.rank_info),
        M(muster.mlx.leftovers) or M(muster.mlx.leftovers_info).
    type: str
    required: true
  show:
    description:
      - What to show. With V(receipts), also the leftovers that the same call removed or reported, and foreign ranks.
    type: str
    choices: [ranks, receipts, leftovers]
    default: ranks
  run:
    description:
      - Name of the run, for receipts.
    type: str
    default: main
  launch:
    description:
      - Name of the variable in which every host registered the result of a start that failed; the module then fails
        with the reason.
    type: str
  receipts:
    description:
      - Folder of the controller for the receipts, relative to the directory where C(ansible-playbook) was started.
        Without it, none are written.
    type: path
seealso:
  - module: muster.mlx.rank_info
  - module: muster.mlx.rank
"""

EXAMPLES = r"""
---
- name: Look at every run
  muster.mlx.rank_info:
  register: muster_ranks

- name: Show the roll call
  muster.mlx.roll_call:
    results: muster_ranks
  run_once: true
"""

RETURN = r"""
ranks:
  description: Every rank as RV(muster.mlx.rank_info#module:ranks) has it, with its node.
  returned: O(show=ranks)
  type: list
  elements: dict
  sample: [{"run": "main", "rank": 0, "node": "mac1", "pid": 4711, "state": "running"}]
receipts:
  description:
    - Every node's receipt as RV(muster.mlx.rank#module:receipt) has it, with its node; the verdict V(unknown)
      stands for a node that could not be asked.
  returned: O(show=receipts)
  type: list
  elements: dict
  sample: [{"run": "main", "node": "mac1", "verdict": "clean"}]
foreign:
  description:
    - Every foreign rank as RV(muster.mlx.leftovers_info#module:foreign) has it, with its node and what was done.
  returned: O(show=leftovers), and O(show=receipts) when leftovers were looked for
  type: list
  elements: dict
  sample: [{"node": "mac1", "pid": 4711, "rank": 2, "launcher": "gone", "action": "ended"}]
problem:
  description: What a playbook should fail with; empty when all is well.
  returned: always
  type: str
  sample: ""
directory:
  description: Folder that the receipts were written to.
  returned: when they were written
  type: str
  sample: /Users/me/cluster/receipts/main/20261130T204500Z
"""
