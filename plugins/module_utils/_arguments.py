# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules take. The words are in their documentation and in the doc fragment `run`."""

from __future__ import annotations

from typing import Any

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

_STOPPING: dict[str, Any] = {
    "stop_signals": {"type": "list", "elements": "str", "default": ["TERM"]},
    "grace": {"type": "float", "default": 30},
    "grace_max": {"type": "float", "default": 180},
    "escalate": {"type": "bool", "default": True},
    "keep": {"type": "int", "default": 10},
}

_DIRECTORIES: dict[str, Any] = {
    "directories": {"type": "list", "elements": "str", "default": []},
    "clients": {"type": "raw", "default": {}},
}

_FOREIGN: dict[str, Any] = {
    "foreign_ranks": {"type": "str", "choices": ["report", "kill"], "default": "report"},
    "pids": {"type": "list", "elements": "int", "default": []},
}

_OWNERS = ["muster", "mlx.launch", "exo"]

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
        "decision": {"type": "str"},
        "expect": {"type": "str", "choices": ["keep", "start"]},
        "raise_fence": {"type": "bool", "default": True},
        "ready": {"type": "str", "choices": ["ring", "log", "port", "process"]},
        "ready_pattern": {"type": "str"},
        "ready_port": {"type": "int"},
        "ready_timeout": {"type": "float", "default": 60},
        "replace": {"type": "bool", "default": False},
        **_STOPPING,
        "leftovers": {"type": "str", "choices": ["ignore", "report", "remove"], "default": "ignore"},
        **_DIRECTORIES,
        **_FOREIGN,
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
    "required_one_of": [("program", "command", "plan"), ("ranks", "plan")],
}
"""What the module preflight takes."""

LEFTOVERS_INFO: dict[str, Any] = {
    "argument_spec": {
        "state_dir": _WHERE["state_dir"],
        "owners": {"type": "list", "elements": "str", "choices": _OWNERS, "default": _OWNERS},
        **_DIRECTORIES,
    },
}
"""What the module leftovers_info takes."""

LEFTOVERS: dict[str, Any] = {
    "argument_spec": {
        **LEFTOVERS_INFO["argument_spec"],
        "state": {"type": "str", "choices": ["absent"], "default": "absent"},
        **_FOREIGN,
        **_STOPPING,
    },
}
"""What the module leftovers takes."""
