# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run on one node: its names, its places in the state directory, and the record of each rank."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._process import Identity

RUN_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}\Z")
INSTANCE_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}\Z")
SCHEMA = 1
MANIFEST = "files.json"
"""In an instance's folder: which files below its `work/` are copies of the controller's, with their SHA-256."""
BEGAN = "began"
"""In a rank's folder: made by the supervisor once the rank runs its program, and no longer waits at the gate."""
STAGING = "unpacking"
"""In an instance's folder: where copies are written before they appear in `work/`."""


def check_run_name(name: str) -> str:
    """Return the name, which becomes a folder's; raise MusterError when it could leave the state directory."""
    if not RUN_NAME.match(name):
        raise MusterError(
            "A run's name is 1 to 63 of a-z, 0-9, '_', '.', '-' and starts with a letter or digit",
            f"mlx_run is {name!r}",
            "Choose another mlx_run",
        )
    return name


def check_instance_name(name: str) -> str:
    """Return the instance's id, as the launch plan makes them; raise MusterError for anything else."""
    if not INSTANCE_NAME.match(name):
        raise MusterError("An instance is named like 20261130T204500Z-0a1b2c3d", f"instance is {name!r}")
    return name


@dataclass(frozen=True)
class Places:
    """Where things of Muster are on a node, below the absolute path `root`."""

    root: str

    @property
    def runs(self) -> str:
        """Folder of all runs."""
        return os.path.join(self.root, "runs")

    def run(self, run: str) -> str:
        """Folder of a run's instances."""
        return os.path.join(self.runs, check_run_name(run))

    def instance(self, run: str, instance: str) -> str:
        """Folder of one instance."""
        return os.path.join(self.run(run), check_instance_name(instance))

    def work(self, run: str, instance: str) -> str:
        """Working directory of an instance's ranks on this node."""
        return os.path.join(self.instance(run, instance), "work")

    def rank(self, run: str, instance: str, rank: int) -> str:
        """Folder of one rank."""
        return os.path.join(self.instance(run, instance), f"rank-{rank}")

    def coordination(self, run: str, instance: str, rank: int) -> str:
        """Coordination file of one rank; its name alone is unique, so nothing can be mistaken for it."""
        return os.path.join(self.rank(run, instance, rank), f"hosts-{instance}-{rank}.json")

    def fence(self, run: str) -> str:
        """The mark that a teardown leaves."""
        return os.path.join(self.root, "fences", check_run_name(run) + ".json")

    def lock(self, name: str) -> str:
        """A lock file."""
        return os.path.join(self.root, "locks", name + ".lock")


@dataclass(frozen=True)
class Record:
    """Who a rank is. `pid`, `start` and `pgid` are empty while the rank is only intended.

    `environment` and `secrets` hold names with a keyed digest of the value, never a value; `key` is
    that digest's key. `hosts` is the whole ring (addresses per rank), `files` maps each copy below the
    working directory to its SHA-256. Times are seconds since the epoch: `issued` by the controller's
    clock, `created` by the node's. `fence` is the fence's token as the launch saw it.
    """

    run: str
    instance: str
    rank: int
    backend: str
    argv: tuple[str, ...]
    cwd: str
    hosts: tuple[tuple[str, ...], ...]
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    key: str
    files: Mapping[str, str]
    boot: str
    issued: float
    created: float
    fence: str
    size: int
    pid: int | None = None
    pgid: int | None = None
    start: str = ""
    supervisor_pid: int | None = None
    supervisor_start: str = ""
    born: float | None = None
    schema: int = SCHEMA

    @property
    def identity(self) -> Identity | None:
        """Who the rank's process is, or None while it is only intended."""
        return Identity(self.pid, self.start, self.boot) if self.pid else None

    @property
    def supervisor(self) -> Identity | None:
        """Who the supervisor is."""
        return Identity(self.supervisor_pid, self.supervisor_start, self.boot) if self.supervisor_pid else None

    @property
    def marker(self) -> str:
        """Value of the rank's environment marker."""
        return f"{self.run}/{self.instance}/{self.rank}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """What this rank listens on while the ring forms, as `ip:port`."""
        return self.hosts[self.rank] if self.hosts else ()

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """Check every field's type; raise ValueError naming the first that is wrong."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"it is not a record of schema {SCHEMA}")
        for name, kinds in _FIELDS.items():
            if name not in data or not isinstance(data[name], kinds) or isinstance(data[name], bool):
                raise ValueError(f"its field {name!r} is {data.get(name)!r}")
        for name, fits in _CONTENTS.items():
            if not fits(data[name]):
                raise ValueError(f"its field {name!r} holds {data[name]!r}")
        if not RUN_NAME.match(data["run"]) or not INSTANCE_NAME.match(data["instance"]):
            raise ValueError("it names run {!r}, instance {!r}".format(data["run"], data["instance"]))
        if data["pid"] is not None and (data["pid"] < 2 or data["pgid"] != data["pid"] or not data["start"]):
            raise ValueError("its pid is {!r}, its group {!r}".format(data["pid"], data["pgid"]))
        known = {name: data[name] for name in _FIELDS}
        return cls(**{**known, "argv": tuple(data["argv"]), "hosts": tuple(tuple(row) for row in data["hosts"])})


_OPTIONAL_INT = (int, type(None))
_ADDRESS = re.compile(r"[^:\s]+:\d+\Z")


def _are_words(value: Any) -> bool:
    return all(isinstance(word, str) for word in (value.values() if isinstance(value, dict) else value))


def _are_addresses(rows: Any) -> bool:
    return all(
        isinstance(row, list) and row and _are_words(row) and all(_ADDRESS.match(word) for word in row) for row in rows
    )


_CONTENTS: dict[str, Callable[[Any], bool]] = {
    "argv": lambda value: bool(value) and _are_words(value),
    "hosts": lambda value: bool(value) and _are_addresses(value),
    "environment": _are_words,
    "secrets": _are_words,
    "files": _are_words,
    "key": lambda value: re.match(r"[0-9a-f]{32}\Z", value) is not None,
}
_FIELDS: dict[str, Any] = {
    "run": str,
    "instance": str,
    "rank": int,
    "backend": str,
    "argv": list,
    "cwd": str,
    "hosts": list,
    "environment": dict,
    "secrets": dict,
    "key": str,
    "files": dict,
    "boot": str,
    "issued": (int, float),
    "created": (int, float),
    "fence": str,
    "size": int,
    "pid": _OPTIONAL_INT,
    "pgid": _OPTIONAL_INT,
    "start": str,
    "supervisor_pid": _OPTIONAL_INT,
    "supervisor_start": str,
    "born": (int, float, type(None)),
    "schema": int,
}


@dataclass(frozen=True)
class Exit:
    """How a rank ended: an exit `code`, or the number of the `signal` that killed it, at `time` (epoch seconds).

    `unborn` says why a rank never came to run its program (its fence, an exec that failed), else it is empty.
    """

    code: int | None
    signal: int | None
    time: float
    unborn: str = ""

    @classmethod
    def from_json(cls, data: Any) -> Exit:
        """Check the types; raise ValueError."""
        if not isinstance(data, dict):
            raise ValueError("it is no JSON object")
        code, signal, time = data.get("code"), data.get("signal"), data.get("time")
        if (
            not isinstance(code, _OPTIONAL_INT)
            or not isinstance(signal, _OPTIONAL_INT)
            or (code is None) == (signal is None)
        ):
            raise ValueError(f"its code is {code!r}, its signal {signal!r}")
        if not isinstance(time, (int, float)):
            raise ValueError(f"its time is {time!r}")
        return cls(code, signal, float(time), str(data.get("unborn", "")))


@dataclass(frozen=True)
class Damaged:
    """A record that is there and cannot be believed: neither a rank nor the absence of one."""

    path: str
    reason: str
