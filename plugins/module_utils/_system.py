# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which System this node is."""

from __future__ import annotations

import sys

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._macos import MacSystem, Run
from ansible_collections.muster.mlx.plugins.module_utils._process import System


def this_system(run: Run) -> System:
    """Return the door to this node; raise MusterError on a system that Muster does not know."""
    if sys.platform == "linux":
        return LinuxSystem()
    if sys.platform == "darwin":
        return MacSystem(run)
    raise MusterError("A node runs macOS or Linux", "this one runs %s" % sys.platform)
