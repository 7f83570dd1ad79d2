#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and remove the MLX ranks of one node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rank
short_description: Start, stop and remove the MLX ranks of a node
version_added: 0.1.0
description:
  - Brings the ranks of one node to a state. Each rank is started by a small supervisor that outlives the ssh session
    and writes a record (process id, start time, boot session) to disk before the rank runs its program.
  - A signal is only sent to a process whose identity agrees with its record.
  - The playbook C(muster.mlx.launch) calls this module once per node; use that unless you write your own.
author: Muster developers (@muster-mlx)
extends_documentation_fragment:
  - muster.mlx.run
  - muster.mlx.run.what
  - muster.mlx.run.stopping
  - muster.mlx.leftovers
  - muster.mlx.leftovers.foreign
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
      - V(started) - the ranks run as specified and show O(ready). Running already with this specification, nothing
        changes.
        Something of the run is dead, the rest is stood down and all start anew. Another specification is an error,
        unless O(replace=true).
      - V(stopped) - no process of the run is left; records and files stay.
      - V(absent) - no process, record, coordination file or copy is left; logs, receipts and what the program wrote
        stay.
    type: str
    choices: [started, stopped, absent]
    default: started
  instance:
    description:
      - For O(state=started), the id of this start, the same on every node, for example V(20261130T204500Z-0a1b2c3d).
      - For the other states, stand down this instance only.
    type: str
  plan:
    description:
      - What M(muster.mlx.plan) returned. The options of this host are taken from it; options given beside it win.
    type: dict
  seen:
    description:
      - What M(muster.mlx.preflight) returned on this host.
    type: dict
  secret_env:
    description:
      - A dictionary like O(env), for values that must not be seen. They reach the rank and nothing else.
    type: raw
    default: {}
  archive:
    description:
      - Tar archive of the controller with the contents of O(files). It is brought to the node.
    type: str
  issued:
    description:
      - Time of issue by the controller's clock, in seconds since the epoch. Without it, now.
    type: float
  fence:
    description:
      - For O(state=started), token of the run's fence as the launch saw it. When a teardown passed since, nothing is
        started.
    type: str
  expect:
    description:
      - For O(state=started), what a look at the whole group decided. When this node is no longer so, the module fails.
    type: str
    choices: [keep, start]
  decision:
    description:
      - RV(muster.mlx.decide#module:action), from which O(expect) follows.
    type: str
  raise_fence:
    description:
      - For the other states, whether launches of the run that were issued before are kept from starting on this node.
    type: bool
    default: true
  ready:
    description:
      - How the group proves that it is up. V(ring) - every rank holds its connections to the next one, seen from
        outside.
        V(log) - rank 0's log matches O(ready_pattern). V(port) - rank 0 listens on O(ready_port).
        V(process) - every rank runs.
      - With V(log) and V(port) the other ranks of a ring hold their connections.
      - Without it, the proof that belongs to O(backend).
    type: str
    choices: [ring, log, port, process]
  ready_pattern:
    description:
      - Regular expression for O(ready=log), searched in each line.
    type: str
  ready_port:
    description:
      - TCP port for O(ready=port).
    type: int
  ready_timeout:
    description:
      - Seconds within which the group must be up.
    type: float
    default: 60
  replace:
    description:
      - Whether a run with another specification is stood down and started anew.
    type: bool
    default: false
  keep:
    description:
      - How many finished instances keep their logs and receipts on the node.
    type: int
    default: 10
  leftovers:
    description:
      - For O(state=absent), what to do in the same call about files that dead runs of C(mlx.launch) and exo left, see
        M(muster.mlx.leftovers). Unless it is V(ignore), foreign ranks are looked for as well.
    type: str
    choices: [ignore, report, remove]
    default: ignore
seealso:
  - module: muster.mlx.leftovers
  - module: muster.mlx.rank_info
  - module: muster.mlx.preflight
"""

EXAMPLES = r"""
---
- name: Start rank 0 of two on this node
  muster.mlx.rank:
    state: started
    run: demo
    instance: 20261130T204500Z-0a1b2c3d
    ranks: [0]
    hosts: [["198.51.100.1:32323"], ["198.51.100.2:32324"]]
    program: [/opt/demo/all_sum.py, --forever]

- name: Leave nothing of it
  muster.mlx.rank:
    state: absent
    run: demo
"""

RETURN = r"""
action:
  description: What O(state=started) decided to do, V(keep), V(start) or V(replace).
  returned: O(state=started)
  type: str
  sample: start
reason:
  description: Why it decided so.
  returned: O(state=started)
  type: str
  sample: no rank of it is running
ranks:
  description: The ranks of this node as they are after the module, see RV(muster.mlx.rank_info#module:ranks).
  returned: O(state=started), and check mode
  type: list
  elements: dict
  sample: [{"run": "demo", "rank": 0, "pid": 4711, "state": "running"}]
failures:
  description: The ranks that did not come up, with state, exit code, log and last lines.
  returned: when a rank does not come up
  type: list
  elements: dict
  sample: [{"rank": 2, "state": "exited 7", "code": 7, "log": "/Users/me/rank-2/log", "last_lines": ["no model"]}]
stood_down:
  description: Whether the ranks of this node were stood down because of another node or a teardown.
  returned: when a rank does not come up
  type: bool
fenced:
  description: Whether nothing was started because a teardown had passed.
  returned: when a fence stopped the launch
  type: bool
  sample: true
receipt:
  description:
    - What the teardown proved on this node. Per rank its identity, the signals sent and when, seconds to its end, how
      it ended, processes
      left and ports still listening; files removed and left, wired memory before and after in bytes, and the verdict.
  returned: O(state=stopped) and O(state=absent), and when a failed start was stood down
  type: dict
  sample: {"run": "demo", "verdict": "clean", "ranks": [{"rank": 0, "signals": [["SIGTERM", 0.0]], "seconds": 0.04}]}
leftovers:
  description: What M(muster.mlx.leftovers) returns; the receipt has it too.
  returned: O(state=absent), unless O(leftovers=ignore)
  type: dict
  sample: {"removed": ["/tmp/tmp.k3VdQ0xYbN"], "foreign": [], "ended": [], "problems": []}
verdict:
  description: V(clean) when nothing is left, else V(dirty), and the module fails.
  returned: O(state=stopped) and O(state=absent)
  type: str
  sample: clean
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils import _arguments, _node, _rank


def main() -> None:
    """Run the module."""
    module = AnsibleModule(supports_check_mode=True, **_arguments.RANK)
    _node.finish(module, _rank.call)


if __name__ == "__main__":
    main()
