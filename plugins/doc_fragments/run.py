# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options that modules of this collection share; the argument specs are in module_utils/_arguments.py."""

    # Which run, on which node
    DOCUMENTATION = r"""
options:
  run:
    description:
      - Name of the run. It stays the same from launch to launch, and is the key for idempotence.
      - 1 to 63 of a-z, 0-9, V(_), V(.), V(-), starting with a letter or a digit.
    type: str
    default: main
  state_dir:
    description:
      - Where Muster keeps records, logs and receipts on the node, mode 0700.
    type: str
    default: ~/.muster
"""

    # What the ranks of a node shall be
    WHAT = r"""
options:
  ranks:
    description:
      - Numbers of the ranks on this node.
    type: list
    elements: int
  hosts:
    description:
      - For every rank of the group, in order, the list of V(ip:port) that it listens on while the ring forms.
      - Its length is the number of ranks.
    type: list
    elements: list
  backend:
    description:
      - The backend of the MLX group.
    type: str
    choices: [ring]
    default: ring
  python:
    description:
      - Absolute path of the interpreter that runs O(program). Without it, the interpreter that runs this module.
    type: str
  program:
    description:
      - What follows the interpreter, for example V([train.py, --epochs, "3"]) or V([-m, mlx_lm, server]).
    type: list
    elements: str
  command:
    description:
      - A whole argument list instead of O(program), for a program that is no Python.
    type: list
    elements: str
  env:
    description:
      - Environment variables of the ranks. Values are strings.
    type: dict
    default: {}
  cwd:
    description:
      - Working directory of the ranks. Without it, the instance's own C(work) folder.
    type: str
  files:
    description:
      - Files below the working directory that come from the controller, path to SHA-256.
    type: dict
    default: {}
"""

    # How ranks are stopped
    STOPPING = r"""
options:
  stop_signals:
    description:
      - Signals that a rank gets, in order, with the grace between them. V([INT, TERM]) lets a Python program clean up.
    type: list
    elements: str
    default: [TERM]
  grace:
    description:
      - Seconds to wait after each signal.
    type: float
    default: 30
  grace_max:
    description:
      - Seconds to wait after a signal as long as the rank's memory is still falling.
    type: float
    default: 180
  escalate:
    description:
      - Whether SIGKILL follows when the grace is over. If not, the rank stays and the module fails.
    type: bool
    default: true
"""
