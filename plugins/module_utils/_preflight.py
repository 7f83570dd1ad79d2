# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked at before anything starts, on one node. Nothing is changed here, in no mode."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._coordination import refused_names
from ansible_collections.muster.mlx.plugins.module_utils._copies import altered
from ansible_collections.muster.mlx.plugins.module_utils._fence import read_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting, settle, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._ports import ports_taken
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._quarantine import read_quarantine
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification, from_options
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state
from ansible_collections.muster.mlx.plugins.module_utils._system import Run, this_system

_SPACE = 64 * 1024 * 1024  # bytes; logs and records of a launch are far below
_MARK = "muster-probe:"

# Runs in the rank's interpreter. It ends itself, since a hanging import must not hang the play, and marks
# its one line, since an interpreter's start-up files may print too.
_PROBE = """
import json, signal, sys
signal.alarm(60)
found = {"executable": sys.executable, "python": sys.version.split()[0]}
try:
    import mlx.core as mx
    found["mlx"] = mx.__version__
    try:
        found["backend"] = bool(mx.distributed.is_available(sys.argv[1]))
    except TypeError:
        found["backend"] = bool(mx.distributed.is_available())
except Exception as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
if sys.argv[2]:
    import importlib.util
    sys.path.insert(0, "")
    try:
        found["module"] = importlib.util.find_spec(sys.argv[2]) is not None
    except Exception:
        found["module"] = False
print("muster-probe:" + json.dumps(found))
"""


@dataclass(frozen=True)
class Asked:
    """What a preflight is asked about: the ranks of this node, and what else the launch needs to know of it."""

    specifications: tuple[Specification, ...]
    python: str
    uses_python: bool
    login: Mapping[str, str]
    size_of_files: int = 0


def preflight(places: Places, asked: Asked, probe: Run, system: System) -> dict[str, Any]:
    """Look at the node and return the facts, with `problems` in words (empty when the launch can go on)."""
    first = asked.specifications[0]
    seen = snapshot(system)
    found, damaged = settle(places, first.run, system)
    fence = read_fence(places, first.run)
    note = read_quarantine(places, seen.boot)
    problems = [note.describe()] if note else []
    problems += refused_names({**first.environment, **first.secrets})
    problems += check_state_dir(places, asked.size_of_files) + check_cwd(first)
    facts: dict[str, Any] = {}
    if asked.uses_python:
        facts, words = check_python(asked, probe)
        problems += words
    problems += check_program(asked)
    addresses = [address for rank in asked.specifications for address in rank.addresses]
    problems += check_addresses(addresses) if len(first.hosts) > 1 else []
    problems += [f"port taken: {words}" for words in ports_taken(places, first.run, addresses, system)]
    problems += [f"{one.path} cannot be believed: {one.reason}; run teardown.yml" for one in damaged]
    return {
        "python": facts.get("executable", asked.python),
        "python_version": facts.get("python"),
        "mlx_version": facts.get("mlx"),
        "state_dir": places.root,
        "boot": seen.boot,
        "fence": fence.token,
        # As the answer leaves: the controller compares it with the moment at which the answer comes.
        "fence_age": round(system.now() - fence.written, 3) if fence.token else None,
        "records": [_record(places, one) for one in found],
        "altered": altered_files(places, found),
        "problems": problems,
    }


def check_state_dir(places: Places, needed: int) -> list[str]:
    """Look whether the state directory can be written and has room, without writing."""
    folder = places.root
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        return [f"state directory {places.root} cannot be written: {folder} is not writable; set mlx_state_dir"]
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if free < _SPACE + needed:
        return [f"{folder} has {free >> 20} MiB free, and {(_SPACE + needed) >> 20} are needed"]
    return []


def check_cwd(wanted: Specification) -> list[str]:
    """Look at the working directory that the user names; the instance's own is made at the start."""
    if wanted.cwd and not os.path.isdir(wanted.cwd):
        return [f"mlx_cwd {wanted.cwd} is no directory on this node"]
    return []


def check_python(asked: Asked, probe: Run) -> tuple[dict[str, Any], list[str]]:
    """Run the rank's interpreter once and return what it says of itself and MLX."""
    first = asked.specifications[0]
    python = first.argv[0]
    if not os.path.isabs(python):
        return {}, [f"mlx_python {python} is no absolute path"]
    if not os.access(python, os.X_OK) or os.path.isdir(python):
        return {}, [f"mlx_python {python} is not there or not executable on this node"]
    module = first.argv[2] if len(first.argv) > 2 and first.argv[1] == "-m" else ""
    cwd = first.cwd if first.cwd and os.path.isdir(first.cwd) else "/"
    code, out, err = probe([python, "-c", _PROBE, first.backend, module], dict(first.environment), cwd)
    lines = [line for line in out.splitlines() if line.startswith(_MARK)]
    if not lines:
        return {}, [f"{python} does not run (exit code {code}): {(err or out).strip()[-300:] or 'no output'}"]
    facts = json.loads(lines[-1][len(_MARK) :])
    problems = []
    if "error" in facts:
        problems.append(
            "{} cannot import mlx ({}); install mlx for it, or set mlx_python".format(python, facts["error"])
        )
    elif not facts["backend"]:
        problems.append("mlx {} of {} has no backend {}".format(facts["mlx"], python, first.backend))
    local = any(
        name == module.replace(".", "/") + ".py" or name.startswith(module.split(".")[0] + "/") for name in first.files
    )
    if module and not facts.get("module") and not local:
        problems.append(f"{python} has no module {module}, and mlx_files brings none")
    return facts, problems


def check_program(asked: Asked) -> list[str]:
    """Look for the program: a script, or the command of a program that is no Python."""
    first = asked.specifications[0]
    if asked.uses_python:
        name = first.argv[1]
        return [] if name.startswith("-") else _check_file(first, name, os.R_OK, "mlx_program")
    name = first.argv[0]
    if os.sep in name:
        return _check_file(first, name, os.R_OK | os.X_OK, "mlx_command")
    path = first.environment.get("PATH", asked.login.get("PATH"))
    return [] if shutil.which(name, path=path) else [f"mlx_command {name} is not on the PATH {path}"]


def _check_file(wanted: Specification, name: str, mode: int, variable: str) -> list[str]:
    if os.path.normpath(name) in wanted.files:
        return []
    path = os.path.join(wanted.cwd or "/", name)
    if not os.path.isabs(name) and not wanted.cwd:
        return [
            f"{variable} {name} is looked for in the run's own work folder, which is empty: name the file in mlx_files "
            "too, give its absolute path on the node, or set mlx_cwd"
        ]
    if not os.path.isfile(path):
        return [f"{variable} {path} is not there on this node"]
    return (
        []
        if os.access(path, mode)
        else ["{} {} cannot be {}".format(variable, path, "run" if mode & os.X_OK else "read")]
    )


def check_addresses(addresses: Sequence[str]) -> list[str]:
    """Look whether each address is configured here, by binding a datagram socket to it."""
    problems = []
    for ip in sorted({address.rpartition(":")[0] for address in addresses}):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((ip, 0))
            except OSError as error:
                problems.append(f"mlx_ips has {ip}, which is not configured on this node ({error.strerror or error})")
    return problems


def _record(places: Places, one: Sighting) -> dict[str, Any]:
    view = one.to_json(places)
    return dict(view, record=one.record.to_json(), alive=one.alive, members=[vars(process) for process in one.members])


def altered_files(places: Places, found: Sequence[Sighting]) -> list[str]:
    """Return, in words, the copies of mlx_files that a living rank was started from and that are no longer the same."""
    words: set[str] = set()
    for one in found:
        if one.members:
            work = places.work(one.record.run, one.record.instance)
            words.update(
                f"{os.path.join(work, name)} is {how}" for name, how in altered(work, one.record.files).items()
            )
    return sorted(words)


def call(params: Mapping[str, Any], check: bool, run: Run) -> dict[str, Any]:
    """Look whether the node's ranks can run and return the result of the module preflight."""
    places = open_state(params["state_dir"])
    asked = Asked(
        specifications=tuple(from_options(params, sys.executable)),
        python=params["python"] or sys.executable,
        uses_python=bool(params["program"]),
        login=dict(os.environ),
        size_of_files=params["size_of_files"],
    )
    facts = preflight(places, asked, run, this_system(run))
    problems = facts["problems"]
    if problems:
        facts.update(failed=True, msg="This node is not ready:\n- {}".format("\n- ".join(problems)))
    return dict(facts, changed=False)
