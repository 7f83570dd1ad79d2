# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that look for leftovers; the argument specs are in module_utils/_arguments.py."""

    # Where to look
    DOCUMENTATION = r"""
options:
  directories:
    description:
      - Directories of the node to look through besides the user's temporary ones, which are C($TMPDIR), C(/tmp) on
        Linux, and on macOS the one that C(getconf DARWIN_USER_TEMP_DIR) names.
      - Absolute, or below C(~). Only files with the names that C(mlx.launch) and exo give are looked at.
    type: list
    elements: str
    default: []
  clients:
    description:
      - What other machines know of their ssh clients, RV(muster.mlx.leftovers_info#module:ssh_clients) of each in one
        dictionary, or the name of the variable in which every host registered it.
      - It tells whether the launcher of a rank that hangs on an ssh connection still lives. The controller always adds
        what it knows of its own clients.
    type: raw
    default: {}
"""

    # Which instances, files and processes
    OWNERS = r"""
options:
  owners:
    description:
      - Whose leftovers to look for. V(muster) - instances of any run whose ranks are gone.
        V(mlx.launch) - its pid files and coordination files. V(exo) - its coordination files.
    type: list
    elements: str
    choices: [muster, mlx.launch, exo]
    default: [muster, mlx.launch, exo]
"""

    # What to do about foreign ranks
    FOREIGN = r"""
options:
  foreign_ranks:
    description:
      - What to do about living MLX ranks that no record of Muster names.
      - V(report) - they are shown. V(kill) - those whose launcher is known to be gone are ended, with the same care as
        a rank of Muster. A rank whose launcher lives, or may live, is only ended when O(pids) names it.
    type: str
    choices: [report, kill]
    default: report
  pids:
    description:
      - Process ids of foreign ranks on this node that are ended in any case, also when their launcher lives.
      - A process that is no foreign rank is not touched, and the module fails.
    type: list
    elements: int
    default: []
"""
