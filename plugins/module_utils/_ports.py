# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the ports of a run are free on this node."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import look, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import runs


def check_ports(places: Places, run: str, wanted: Sequence[Specification], system: System) -> None:
    """Raise MusterError when a port of these ranks is in use.

    MLX binds with SO_REUSEPORT (mlx/distributed/utils.cpp): two groups on one port start without an error and
    mix up. So a port counts as taken when anything listens on it, and when a living rank's record names it, since
    a rank stops to listen once its ring is formed.
    """
    addresses = [address for rank in wanted for address in rank.addresses]
    taken = ports_taken(places, run, addresses, system)
    if taken:
        raise MusterError(
            f"The ports of run {run} should be free",
            "; ".join(taken),
            "End that process, or choose another mlx_starting_port",
        )


def ports_taken(places: Places, run: str, addresses: Sequence[str], system: System) -> list[str]:
    """Return, in words, who uses which of these `ip:port`; ranks of the run itself do not count."""
    seen = snapshot(system)
    found = []
    own: set[int] = set()
    for name in runs(places):
        for one in look(places, name, seen)[0]:
            if name == run:
                own.update(process.pid for process in one.members)
            elif one.members:
                shared = sorted({*one.record.addresses} & {*addresses})
                found += [f"{address} belongs to rank {one.record.rank} of run {name}" for address in shared]
    for item in system.listeners():
        for address in addresses:
            ip, dummy, port = address.rpartition(":")
            if item.port == int(port) and item.address in (ip, "0.0.0.0", "::") and item.pid not in own:
                holder = f"process {item.pid} ({item.command})" if item.pid else "a process of another user"
                found.append(f"{address} is in use by {holder}")
    return found
