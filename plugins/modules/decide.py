#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin decide."""

from __future__ import annotations

DOCUMENTATION = r"""
module: decide
short_description: Decide whether a run is kept, started or replaced
version_added: 0.1.0
description:
  - Compares what every node showed with what is wanted, for the group as a whole.
  - Fails when MLX differs between nodes, when a teardown passed since the launch was issued, and when the run is up
    with another specification.
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
options:
  plan:
    description:
      - What M(muster.mlx.plan) returned.
    type: dict
    required: true
  seen:
    description:
      - Name of the variable in which every host registered the result of M(muster.mlx.preflight).
    type: str
    required: true
seealso:
  - module: muster.mlx.plan
  - module: muster.mlx.preflight
"""

EXAMPLES = r"""
---
- name: Decide for the whole run
  muster.mlx.decide:
    plan: "{{ muster_plan }}"
    seen: muster_seen
  run_once: true
  register: muster_decision
"""

RETURN = r"""
action:
  description:
    - V(keep) when all is up as specified, V(start) when nothing of the run lives, V(replace) when something does
      and must go first.
  returned: success
  type: str
  sample: start
reason:
  description: Why.
  returned: success
  type: str
  sample: no rank of it is running
"""
