# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which System this node is, and how a command runs on it."""

from __future__ import annotations

import platform
from typing import Protocol

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._process import System


class Run(Protocol):
    """Runs an argument list as it is, with names added to the environment, and returns (exit code, stdout, stderr)."""

    def __call__(self, argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
        """Run it; raise OSError when it cannot be run at all."""


def this_system(run: Run) -> System:
    """Return the door to this node; raise MusterError on a system that Muster does not know."""
    name = platform.system()
    if name == "Linux":
        from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem

        return LinuxSystem()
    if name == "Darwin":
        from ansible_collections.muster.mlx.plugins.module_utils._macos import MacSystem

        return MacSystem(run)
    raise MusterError("A node runs macOS or Linux", f"this one runs {name}")
