# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The selection of hosts, checked. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ansible.inventory.manager import split_host_pattern
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError


def pattern_of(value: Any) -> list[str]:
    """Return `mlx_hosts`, a pattern or a list of names, as a list of patterns; the group `mlx` where it is not set."""
    if value is None or value == "":
        return ["mlx"]
    return [str(word) for word in split_host_pattern(value)]


def check_selection(
    pattern: Sequence[str], selected: Sequence[str], within: Collection[str], limit: str, names: Iterable[str]
) -> list[str]:
    """Return the selected hosts that the limit leaves; raise MusterError for an unknown name, an empty group or nothing
    left."""
    unknown = unmatched(pattern, names) if list(pattern) != ["localhost"] else []
    if unknown:
        raise MusterError(
            "mlx_hosts names hosts and groups of the inventory (the group mlx without it)",
            "the inventory has no {}".format(", ".join(unknown)),
            "Give the inventory with -i, or set mlx_hosts to a host, group or pattern of it",
        )
    if not selected:
        raise MusterError(
            "At least one host is needed",
            "{} is empty".format(",".join(pattern)),
            "Put hosts into it, or set mlx_hosts",
        )
    left = [host for host in selected if host in within]
    if not left:
        raise MusterError(
            "At least one host is needed", "--limit {} leaves none of {}".format(limit, ", ".join(selected))
        )
    return left


def unmatched(pattern: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the plain names of a pattern that no host and no group has."""
    known = {*names, "all", "*"}
    plain = (term.lstrip("&!") for term in pattern)
    return [term for term in plain if not any(sign in term for sign in "*?[]~") and term not in known]
