# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a launch: which host gets which ranks, addresses and words.

Pure functions over what the inventory says.
"""

from __future__ import annotations

import difflib
import ipaddress
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._coordination import refused_names, ring_addresses
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._ready import proof_of
from ansible_collections.muster.mlx.plugins.module_utils._run import check_run_name
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import policy_of

OTHER_VARIABLES = (
    "mlx_rdma",
    "mlx_leftovers",
    "mlx_foreign_ranks",
    "mlx_pids",
    "mlx_directories",
    "mlx_supervision",
    "mlx_receipts",
)
"""Variables of other playbooks, which may stand in the same inventory."""

GROUP_WIDE = (
    "mlx_run",
    "mlx_backend",
    "mlx_starting_port",
    "mlx_connections_per_ip",
    "mlx_ready",
    "mlx_ready_pattern",
    "mlx_ready_port",
    "mlx_ready_timeout",
    "mlx_replace",
    "mlx_files",
)
"""Variables that describe the whole group, so that they cannot differ from host to host."""


def new_instance() -> str:
    """Return a new instance's id: the time, so that a person finds it, and 32 random bits, so that it is unique."""
    return "{}-{}".format(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), secrets.token_hex(4))


def lay_out(wanted: Mapping[str, Mapping[str, Any]], addresses: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan.

    `wanted` gives each host's validated variables in the inventory's order, `addresses` what Ansible connects to.
    The result has `run`, `size`, `start` (how the group proves that it is up) and `nodes`: per host its options of
    the modules. Raises MusterError with every fault that it finds.
    """
    common = next(iter(wanted.values()))
    faults = _disagreements(wanted)
    ips: dict[str, list[str]] = {}
    for host, variables in wanted.items():
        faults += _program_faults(host, variables) + _option_faults(variables)
        for name in ("mlx_env", "mlx_secret_env"):
            faults += [f"{host}: {fault}" for fault in refused_names(words_of(variables[name], host, name))]
        ips[host] = list(variables["mlx_ips"] or [addresses[host]])
        faults += _address_faults(host, ips[host], bool(variables["mlx_ips"]))
        if variables["mlx_slots"] < 1:
            faults.append(
                f"{host}: mlx_slots is {variables['mlx_slots']}, and a host of the group has at least one rank"
            )
    faults += _duplicates(ips)
    raise_faults(faults)
    slots = [host for host, variables in wanted.items() for dummy in range(variables["mlx_slots"])]
    ring = ring_addresses([ips[host] for host in slots], common["mlx_starting_port"], common["mlx_connections_per_ip"])
    return {
        "run": common["mlx_run"],
        "size": len(slots),
        "nodes": {host: _options(host, wanted[host], slots, ring) for host in wanted},
        "start": _start_options(common),
    }


def _options(
    host: str, variables: Mapping[str, Any], slots: Sequence[str], ring: Sequence[Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """Return a host's options of the modules preflight and rank, by what they are about."""
    return {
        "where": {"run": variables["mlx_run"], "state_dir": variables["mlx_state_dir"]},
        "what": {
            "ranks": [rank for rank, name in enumerate(slots) if name == host],
            "hosts": list(ring),
            "backend": variables["mlx_backend"],
            "python": variables["mlx_python"],
            "program": variables["mlx_program"],
            "command": variables["mlx_command"],
            "env": words_of(variables["mlx_env"], host, "mlx_env"),
            "cwd": variables["mlx_cwd"],
        },
        "stopping": {
            name: variables["mlx_" + name] for name in ("stop_signals", "grace", "grace_max", "escalate", "keep")
        },
    }


def _start_options(common: Mapping[str, Any]) -> dict[str, Any]:
    names = ("ready", "ready_pattern", "ready_port", "ready_timeout", "replace")
    return {name: common["mlx_" + name] for name in names}


def of_node(plan: Mapping[str, Any], host: str, *parts: str) -> dict[str, Any]:
    """Return a host's options of a module, those parts of them; what the user left open is left out."""
    node = plan["nodes"][host]
    options = {name: value for part in parts for name, value in node[part].items()}
    return {name: value for name, value in options.items() if value is not None}


def words_of(values: Mapping[str, Any], host: str, variable: str) -> dict[str, str]:
    """Return environment values as strings; a boolean, null or structure is refused, since nobody knows which word it
    stands for."""
    faults = [
        "{}: {} has {} = {} ({}); write it in quotes".format(
            host, variable, name, "…" if "secret" in variable else value, type(value).__name__
        )
        for name, value in values.items()
        if isinstance(value, bool) or not isinstance(value, (str, int, float))
    ]
    raise_faults(faults)
    return {str(name): str(value) for name, value in values.items()}


def unknown_variables(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return, in words, the `mlx_*` names that look like a misspelt variable of Muster."""
    known = {*known, *OTHER_VARIABLES}
    faults = []
    for name in sorted({*names} - known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8) if name.startswith("mlx_") else []
        faults += [f"{name} is no variable of Muster; is {close[0]} meant?"] if close else []
    return faults


def raise_faults(faults: Sequence[str]) -> None:
    """Raise one MusterError with all faults, if there are any."""
    if faults:
        raise MusterError("", "The launch cannot be planned:\n- {}".format("\n- ".join(dict.fromkeys(faults))))


def _disagreements(wanted: Mapping[str, Mapping[str, Any]]) -> list[str]:
    first = next(iter(wanted))
    return [
        f"{name} describes the whole group and differs between hosts: "
        f"{first} has {wanted[first][name]}, {host} has {variables[name]}"
        for name in GROUP_WIDE
        for host, variables in wanted.items()
        if variables[name] != wanted[first][name]
    ]


def _option_faults(variables: Mapping[str, Any]) -> list[str]:
    """Return what the node would refuse, so that it is said before any node is asked."""
    options = {name.removeprefix("mlx_"): value for name, value in variables.items()}
    faults = []
    for check in (lambda: check_run_name(variables["mlx_run"]), lambda: proof_of(options), lambda: policy_of(options)):
        try:
            check()
        except MusterError as error:
            faults.append(str(error))
    if variables["mlx_connections_per_ip"] < 1:
        faults.append(f"mlx_connections_per_ip is {variables['mlx_connections_per_ip']}, and a ring needs at least 1")
    if not 1 <= variables["mlx_starting_port"] <= 65535:
        faults.append(f"mlx_starting_port is {variables['mlx_starting_port']}, and ports go from 1 to 65535")
    return faults


def _program_faults(host: str, variables: Mapping[str, Any]) -> list[str]:
    program, command, python = variables["mlx_program"], variables["mlx_command"], variables["mlx_python"]
    faults = []
    if bool(program) == bool(command):
        found = "both are set" if program else "neither is set"
        faults.append(f'what to run is missing or doubled: set mlx_program (e.g. ["train.py"]) or mlx_command; {found}')
    if python and not python.startswith("/"):
        faults.append(f"{host}: mlx_python is {python!r}, and it must be an absolute path on the node")
    if variables["mlx_cwd"] and not variables["mlx_cwd"].startswith("/"):
        faults.append(
            "{}: mlx_cwd is {!r}, and it must be an absolute path on the node".format(host, variables["mlx_cwd"])
        )
    return faults


def _address_faults(host: str, ips: Sequence[str], named: bool) -> list[str]:
    faults = []
    for ip in ips:
        try:
            # MLX's ring opens AF_INET sockets only (mlx/distributed/utils.cpp).
            ipaddress.IPv4Address(ip)
        except ValueError:
            source = "mlx_ips has" if named else "mlx_ips is not set and Ansible connects to"
            faults.append(f"{host}: {source} {ip!r}, and a ring needs IPv4 addresses; set mlx_ips for this host")
    return faults


def _duplicates(ips: Mapping[str, Sequence[str]]) -> list[str]:
    faults = []
    seen: dict[str, str] = {}
    for host, addresses in ips.items():
        for ip in addresses:
            if ip in seen and seen[ip] == host:
                faults.append(f"{host}: mlx_ips names {ip} twice; use mlx_connections_per_ip")
            elif ip in seen:
                faults.append(f"address {ip} belongs to {seen[ip]} and to {host}; each host needs its own")
            seen.setdefault(ip, host)
    return faults
