# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Linux and macOS share behind the System protocol: signals and clocks."""

from __future__ import annotations

import os
import time
from typing import Callable

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError


class PosixSystem:
    """Signals by pid or group, and the clocks."""

    def kill(self, pid: int, number: int) -> bool:
        """Signal one process; False when it was gone already."""
        return _send(os.kill, pid, number)

    def killpg(self, pgid: int, number: int) -> bool:
        """Signal a process group; False when it was gone already."""
        return _send(os.killpg, pgid, number)

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return the monotonic clock in seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def _send(send: Callable[[int, int], None], target: int, number: int) -> bool:
    # 0 and -1 would reach the caller's own group and everything else.
    if target <= 1:
        raise MusterError("A signal goes to a recorded process", f"pid {target}", "Report this fault of Muster")
    try:
        send(target, number)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise MusterError(
            f"Process {target} should get signal {number}",
            f"the system refuses it: {error}",
            "Run Muster as the user who started the rank",
        ) from error
    return True
