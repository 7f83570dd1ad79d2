# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank shall be, and how that differs from the rank that is there. Pure functions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets as randomness
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import Record, check_run_name


@dataclass(frozen=True)
class Specification:
    """One rank of a run as it is wanted.

    `cwd` empty means the instance's own `work/`. `files` maps a path below it to SHA-256.
    """

    run: str
    rank: int
    backend: str
    argv: tuple[str, ...]
    hosts: tuple[tuple[str, ...], ...]
    size: int
    cwd: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def addresses(self) -> tuple[str, ...]:
        """What this rank listens on while the ring forms, as `ip:port`."""
        return self.hosts[self.rank] if self.hosts else ()


def from_options(params: Mapping[str, Any], python: str) -> list[Specification]:
    """Return what each rank of this node shall be; `python` is the node's own interpreter."""
    check_run_name(params["run"])
    if not params["program"] and not params["command"]:
        raise MusterError("What to run is given by program or command", "both are empty")
    if not params["ranks"]:
        raise MusterError("The ranks of this node are given by ranks and hosts, or by plan", "neither came to the node")
    hosts = tuple(tuple(str(address) for address in row) for row in params["hosts"] or [])
    for rank in params["ranks"]:
        if not 0 <= rank < len(hosts):
            raise MusterError("Each of ranks has its row in hosts", f"rank {rank}, and hosts has {len(hosts)} rows")
    argv = (params["python"] or python, *params["program"]) if params["program"] else tuple(params["command"])
    return [
        Specification(
            run=params["run"],
            rank=rank,
            backend=params["backend"],
            argv=argv,
            hosts=hosts,
            size=len(hosts),
            cwd=params["cwd"] or "",
            environment=dict(params["env"]),
            secrets=unseal(params.get("secret_env")),
            files=dict(params["files"]),
        )
        for rank in params["ranks"]
    ]


def unseal(secrets: Any) -> dict[str, str]:
    """Return the secret environment from the one opaque word that the action plugin makes of it, or as it is."""
    if isinstance(secrets, str):
        return {str(name): str(value) for name, value in json.loads(base64.b64decode(secrets)).items()}
    return dict(secrets or {})


def new_key() -> str:
    """Return a key for the digests of one record."""
    return randomness.token_hex(16)


def digests(values: Mapping[str, str], key: str) -> dict[str, str]:
    """Return name → keyed digest, so that a record can tell whether a value changed without holding it."""
    return {
        name: hmac.new(
            bytes.fromhex(key), (f"{name}={value}").encode("utf-8", "surrogateescape"), hashlib.sha256
        ).hexdigest()
        for name, value in values.items()
    }


def differences(wanted: Specification, record: Record, work: str) -> list[str]:
    """Return, in words, what differs between the wanted rank and the recorded one; empty when nothing does.

    `work` is the working directory that an empty `cwd` stands for. Values of the environment are never named.
    """
    found = []
    pairs = [
        ("program", list(wanted.argv), list(record.argv)),
        ("working directory", wanted.cwd or work, record.cwd),
        ("backend", wanted.backend, record.backend),
        ("number of ranks", wanted.size, record.size),
        ("addresses", [list(row) for row in wanted.hosts], [list(row) for row in record.hosts]),
    ]
    found += [f"{name}: running {old}, wanted {new}" for name, new, old in pairs if new != old]
    found += _changes("environment", digests(wanted.environment, record.key), record.environment)
    found += _changes("secret environment", digests(wanted.secrets, record.key), record.secrets)
    found += _changes("file", wanted.files, record.files)
    return found


def _changes(kind: str, wanted: Mapping[str, str], running: Mapping[str, str]) -> list[str]:
    words = []
    for name in sorted({*wanted, *running}):
        if name not in running:
            words.append(f"{kind} {name}: new")
        elif name not in wanted:
            words.append(f"{kind} {name}: no longer wanted")
        elif wanted[name] != running[name]:
            words.append(f"{kind} {name}: changed")
    return words
