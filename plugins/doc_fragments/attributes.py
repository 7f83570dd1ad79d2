# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of modules, see the community's documentation standard."""

    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/muster.mlx.mlx) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - muster.mlx.mlx
  platform:
    description: Systems of the node on which the module works.
    platforms: macOS, Linux
    support: full
"""

    # A module that changes nothing
    INFO = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return what it would do without changing the node.
    support: full
    details: This module does not change anything.
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: N/A
    details: This module does not change anything.
  idempotent:
    description: When run twice in a row, the second run returns RV(ignore:changed=false).
    support: full
    details: This module does not change anything.
"""
