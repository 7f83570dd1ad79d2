#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin plan."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Check a launch's variables and lay out its ranks
version_added: 0.1.0
description:
  - Reads the C(mlx_*) variables of every host of the play, checks them, and returns which host runs which ranks on
    which addresses.
  - Works on the controller only and touches no node. Use it with C(run_once).
author: Muster developers (@muster-mlx)
attributes:
  check_mode:
    description: Can run in check mode and return what it would do without changing anything.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: N/A
    details: It changes nothing.
  idempotent:
    description: When run twice in a row, the second run returns RV(ignore:changed=false).
    support: full
  platform:
    description: Systems of the controller on which it works.
    platforms: macOS, Linux
    support: full
seealso:
  - module: muster.mlx.decide
"""

EXAMPLES = r"""
---
- name: Lay out the ranks
  muster.mlx.plan:
  run_once: true
  register: muster_plan
"""

RETURN = r"""
run:
  description: Name of the run.
  returned: success
  type: str
  sample: main
instance:
  description: Id of this launch, should it start anything.
  returned: success
  type: str
  sample: 20261130T204500Z-0a1b2c3d
issued:
  description: Time of issue by the controller's clock, in seconds since the epoch.
  returned: success
  type: float
  sample: 1796071500.1
backend:
  description: Backend of the MLX group.
  returned: success
  type: str
  sample: ring
size:
  description: Number of ranks.
  returned: success
  type: int
  sample: 4
hosts:
  description: For every rank the V(ip:port) list that it listens on.
  returned: success
  type: list
  elements: list
  sample: [["198.51.100.1:32323"], ["198.51.100.2:32324"]]
nodes:
  description: For every host its ranks and what they run.
  returned: success
  type: dict
  sample: {"mac1": {"ranks": [0], "python": "", "program": ["train.py"], "command": [], "env": {}, "cwd": ""}}
files:
  description: Files that go into the work folder, path to SHA-256.
  returned: success
  type: dict
  sample: {"train.py": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}
size_of_files:
  description: Their size in bytes.
  returned: success
  type: int
  sample: 5120
archive:
  description: Archive of these files on the controller, empty when there are none and in check mode.
  returned: success
  type: str
  sample: /tmp/ansible-local-1/muster-20261130T204500Z-0a1b2c3d.tar
"""
