# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a login prints on its own, told apart from a module's answer."""

from __future__ import annotations

_SSH_OWN = (
    "debug1:",
    "debug2:",
    "debug3:",
    "OpenSSH_",
    "Shared connection to ",
    "Connection to ",
    "Warning: Permanently added",
)


def login_output(stdout: str, stderr: str, limit: int = 500) -> str:
    """Return, without repeats, the lines before a module's JSON and those on stderr that ssh itself did not print."""
    before: list[str] = []
    for line in stdout.splitlines():
        if line.lstrip().startswith("{"):
            break
        before.append(line)
    lines = [*before, *stderr.splitlines()]
    kept = [line.strip() for line in lines if line.strip() and not line.startswith(_SSH_OWN)]
    return "\n".join(dict.fromkeys(kept))[:limit]
