#!/usr/bin/python
# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a node before MLX ranks are launched on it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Look at a node before MLX ranks are launched on it
version_added: 0.1.0
description:
  - Looks whether the ranks that are meant for a node can run there, and fails with all the reasons why not.
  - Interpreter and program, working directory, MLX and its backend, addresses, ports (with the process that holds one),
    state directory and disk space.
  - Changes nothing and starts nothing but the interpreter that it asks about MLX.
author: Muster developers (@muster-mlx)
extends_documentation_fragment:
  - muster.mlx.run
  - muster.mlx.run.what
  - muster.mlx.attributes
  - muster.mlx.attributes.info
options:
  plan:
    description:
      - What M(muster.mlx.plan) returned. The options of this host are taken from it; options given beside it win.
    type: dict
  size_of_files:
    description:
      - Bytes that O(files) will take.
    type: int
    default: 0
seealso:
  - module: muster.mlx.rank
"""

EXAMPLES = r"""
---
- name: Look whether rank 0 of two can run here
  muster.mlx.preflight:
    ranks: [0]
    hosts: [["198.51.100.1:32323"], ["198.51.100.2:32324"]]
    program: [/opt/demo/all_sum.py]
"""

RETURN = r"""
problems:
  description: What is in the way, in words. The module fails unless it is empty.
  returned: always
  type: list
  elements: str
  sample: ["port taken: 198.51.100.1:32323 is in use by process 4711 (python3)"]
python:
  description: The interpreter that would run the program.
  returned: always
  type: str
  sample: /opt/homebrew/bin/python3
python_version:
  description: Its version.
  returned: when it runs
  type: str
  sample: 3.13.0
mlx_version:
  description: Version of MLX that it imports.
  returned: when it imports MLX
  type: str
  sample: 0.32.4
state_dir:
  description: The state directory as an absolute path.
  returned: always
  type: str
  sample: /Users/me/.muster
boot:
  description: Id of the node's boot session.
  returned: always
  type: str
  sample: 1B2C3D4E-0000-4000-8000-0123456789AB
answered:
  description: When the answer came, by the controller's clock, in seconds since the epoch.
  returned: always
  type: float
  sample: 1796071500.4
fence:
  description: Token of the run's fence, empty when no teardown ever passed here.
  returned: always
  type: str
  sample: 6f1c2e0b8e5d4f7c9a3b2d1e0f4a5b6c
fence_age:
  description: Seconds since the last teardown of the run on this node, as the answer leaves it.
  returned: when there was one
  type: float
  sample: 3600.5
records:
  description: The recorded ranks of the run, see RV(muster.mlx.rank_info#module:ranks).
  returned: always
  type: list
  elements: dict
  sample: []
altered:
  description: Copies of the controller's files that are no longer what a running rank was started with.
  returned: always
  type: list
  elements: str
  sample: []
login_output:
  description: What a login on this node prints on its own. It does no harm.
  returned: when it prints anything
  type: str
  sample: "*** welcome"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils import _arguments, _node, _preflight


def main() -> None:
    """Run the module."""
    module = AnsibleModule(supports_check_mode=True, **_arguments.PREFLIGHT)
    _node.finish(module, _preflight.call)


if __name__ == "__main__":
    main()
