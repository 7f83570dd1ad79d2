# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks of an MLX group must be told: the ring's addresses and the environment of each rank.

Pure functions. Source of the formats: `mlx/_distributed_utils/launch.py` (launch_ring) and
`mlx/distributed/ring/ring.cpp` of MLX 0.32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER

OWN_NAMES = ("MLX_RANK", "MLX_HOSTFILE", MARKER)
"""Environment names that only Muster sets."""

_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TMPDIR")

_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def refused_names(environment: Mapping[str, str]) -> list[str]:
    """Return, in words, which names an environment may not have: Muster's own, and those that none can hold."""
    found = [
        f"the environment sets {name}, which Muster sets for each rank" for name in OWN_NAMES if name in environment
    ]
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name:
            found.append(f"the environment has the name {name!r}, which cannot be one")
        elif "\0" in value:
            found.append(f"the environment's {name} has a NUL in its value, which cannot be")
    return found


def ring_addresses(ips: Sequence[Sequence[str]], starting_port: int, connections_per_ip: int) -> list[list[str]]:
    """Return `ip:port` lists per rank, the port counted up over ranks, addresses and connections as `mlx.launch` does.

    Raises MusterError when the ports run past 65535.
    """
    port = starting_port
    ring: list[list[str]] = []
    for addresses in ips:
        row = []
        for ip in addresses:
            for dummy in range(connections_per_ip):
                row.append(f"{ip}:{port}")
                port += 1
        ring.append(row)
    if port - 1 > 65535:
        raise MusterError(
            "Each rank, address and connection needs a port of its own up to 65535",
            f"mlx_starting_port {starting_port} and {port - starting_port} ports end at {port - 1}",
            "Choose a smaller mlx_starting_port",
        )
    return ring


def ring_document(hosts: Sequence[Sequence[str]]) -> bytes:
    """Return the coordination file that `MLX_HOSTFILE` names."""
    return (json.dumps([list(row) for row in hosts]) + "\n").encode()


def next_addresses(hosts: Sequence[Sequence[str]], rank: int) -> tuple[str, ...]:
    """Return what the ring connects this rank to: the addresses of the next one, cyclic."""
    return tuple(hosts[(rank + 1) % len(hosts)]) if len(hosts) > 1 else ()


def rank_environment(
    login: Mapping[str, str], rank: int, marker: str, coordination: str | None, wanted: Mapping[str, str]
) -> dict[str, str]:
    """Build a rank's whole environment: a few names of the login, Muster's own, then what the user wants.

    It is built and not inherited, so that a stray `MLX_*` or `JACCL_*` of a profile cannot change the
    group. Output is unbuffered, so that the log's last line is the last thing that happened.
    """
    environment = {name: value for name, value in login.items() if name in _INHERITED or name.startswith("LC_")}
    environment.setdefault("PATH", _PLAIN_PATH)
    environment["PYTHONUNBUFFERED"] = "1"
    environment.update(wanted)
    environment["MLX_RANK"] = str(rank)
    environment[MARKER] = marker
    # Without a file a ring of one rank is refused by MLX, and with one it waits for itself: a single rank gets none.
    if coordination:
        environment["MLX_HOSTFILE"] = coordination
    return environment
