# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that several modules share, and how they become specifications. The words are in the doc fragment `run`."""

from __future__ import annotations

import base64
import json
import signal
from typing import Any, Mapping

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._ready import Proof
from ansible_collections.muster.mlx.plugins.module_utils._run import check_run_name
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy

_WHERE: dict[str, Any] = {
    "run": {"type": "str", "default": "main"},
    "state_dir": {"type": "str", "default": "~/.muster"},
}

_WHAT: dict[str, Any] = {
    "ranks": {"type": "list", "elements": "int"},
    "hosts": {"type": "list", "elements": "list"},
    "backend": {"type": "str", "default": "ring", "choices": ["ring"]},
    "python": {"type": "str"},
    "program": {"type": "list", "elements": "str"},
    "command": {"type": "list", "elements": "str"},
    "env": {"type": "dict", "default": {}},
    "cwd": {"type": "str"},
    "files": {"type": "dict", "default": {}},
    "plan": {"type": "dict"},
}

RANK: dict[str, Any] = {
    "argument_spec": {
        **_WHERE,
        **_WHAT,
        "state": {"type": "str", "choices": ["started", "stopped", "absent"], "default": "started"},
        "instance": {"type": "str"},
        "seen": {"type": "dict"},
        "secret_env": {"type": "raw", "default": {}, "no_log": True},
        "archive": {"type": "str"},
        "issued": {"type": "float"},
        "fence": {"type": "str"},
        "raise_fence": {"type": "bool", "default": True},
        "ready": {"type": "str", "choices": ["ring", "log", "port", "process"]},
        "ready_pattern": {"type": "str"},
        "ready_port": {"type": "int"},
        "ready_timeout": {"type": "float", "default": 60},
        "replace": {"type": "bool", "default": False},
        "stop_signals": {"type": "list", "elements": "str", "default": ["TERM"]},
        "grace": {"type": "float", "default": 30},
        "grace_max": {"type": "float", "default": 180},
        "escalate": {"type": "bool", "default": True},
        "keep": {"type": "int", "default": 10},
    },
    "mutually_exclusive": [("program", "command")],
    "required_if": [
        ("state", "started", ("ranks", "hosts", "instance")),
        ("state", "started", ("program", "command"), True),
    ],
}
"""What the module rank takes. Paths are plain strings: only the node may expand them."""

RANK_INFO: dict[str, Any] = {
    "argument_spec": {"run": {"type": "str"}, "state_dir": {"type": "str", "default": "~/.muster"}},
}
"""What the module rank_info takes."""

PREFLIGHT: dict[str, Any] = {
    "argument_spec": {
        **_WHERE,
        **_WHAT,
        "size_of_files": {"type": "int", "default": 0},
    },
    "mutually_exclusive": [("program", "command")],
    "required_together": [("ranks", "hosts")],
    "required_one_of": [("program", "command"), ("ranks",)],
}
"""What the module preflight takes."""


def specifications(params: Mapping[str, Any], python: str) -> list[Specification]:
    """Return what each rank of this node shall be; `python` is the node's own interpreter."""
    check_run_name(params["run"])
    hosts = tuple(tuple(str(address) for address in row) for row in params["hosts"] or [])
    for rank in params["ranks"]:
        if not 0 <= rank < len(hosts):
            raise MusterError("Each of ranks has its row in hosts", "rank %d, and hosts has %d rows" % (rank, len(hosts)))
    if params["program"]:
        argv = (params["python"] or python, *params["program"])
    else:
        argv = tuple(params["command"])
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


def policy(params: Mapping[str, Any]) -> Policy:
    """Return how a rank is to be stopped; raise MusterError for a signal that does not exist."""
    numbers = []
    for name in params["stop_signals"]:
        member = getattr(signal, "SIG" + name.upper().replace("SIG", "", 1), None)
        if not isinstance(member, signal.Signals):
            raise MusterError("mlx_stop_signals names signals, for example [INT, TERM]", "%r" % name)
        numbers.append(int(member))
    return Policy(tuple(numbers), params["grace"], params["grace_max"], params["escalate"])


def proof(params: Mapping[str, Any]) -> Proof:
    """Return how the group proves that it is up; raise MusterError where a pattern or a port is missing."""
    kind = params["ready"] or params["backend"]
    if kind == "log" and not params["ready_pattern"]:
        raise MusterError("mlx_ready: log needs mlx_ready_pattern, a regular expression", "it is empty")
    if kind == "port" and not params["ready_port"]:
        raise MusterError("mlx_ready: port needs mlx_ready_port", "it is empty")
    return Proof(kind, params["ready_pattern"] or "", params["ready_port"] or 0)
