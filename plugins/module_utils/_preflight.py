# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked at before anything starts, on one node. Nothing is changed here, in no mode."""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from ansible_collections.muster.mlx.plugins.module_utils._coordination import OWN_NAMES
from ansible_collections.muster.mlx.plugins.module_utils._fence import read_fence
from ansible_collections.muster.mlx.plugins.module_utils._look import look, snapshot
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._rank import altered_files, ports_taken
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification

Probe = Callable[..., "tuple[int, str, str]"]

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


def preflight(places: Places, asked: Asked, probe: Probe, system: System) -> dict[str, Any]:
    """Look at the node and return the facts, with `problems` in words (empty when the launch can go on)."""
    first = asked.specifications[0]
    seen = snapshot(system)
    found, damaged = look(places, first.run, seen)
    fence = read_fence(places, first.run)
    problems = check_environment(first) + check_state_dir(places, asked.size_of_files) + check_cwd(first)
    facts: dict[str, Any] = {}
    if asked.uses_python:
        facts, words = check_python(asked, probe)
        problems += words
    problems += check_program(asked)
    addresses = [address for rank in asked.specifications for address in rank.addresses]
    problems += check_addresses(addresses) if len(first.hosts) > 1 else []
    problems += ["port taken: %s" % words for words in ports_taken(places, first.run, addresses, system)]
    problems += ["%s cannot be believed: %s; run teardown.yml" % (one.path, one.reason) for one in damaged]
    return {
        "python": facts.get("executable", asked.python),
        "python_version": facts.get("python"),
        "mlx_version": facts.get("mlx"),
        "state_dir": places.root,
        "fence": fence.token,
        "fence_age": round(seen.now - fence.written, 3) if fence.token else None,
        "records": [_record(places, one) for one in found],
        "altered": altered_files(places, found),
        "problems": problems,
    }


def check_environment(wanted: Specification) -> list[str]:
    """Refuse names that only Muster sets, and names or values that no environment can hold."""
    problems = []
    for name, value in {**wanted.environment, **wanted.secrets}.items():
        if name in OWN_NAMES:
            problems.append("mlx_env sets %s, which Muster sets for each rank; leave it out" % name)
        elif not name or "=" in name or "\0" in name + str(value):
            problems.append("mlx_env has the name %r, which cannot be an environment variable" % name)
    return problems


def check_state_dir(places: Places, needed: int) -> list[str]:
    """Look whether the state directory can be written and has room, without writing."""
    folder = places.root
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        return ["state directory %s cannot be written: %s is not writable; set mlx_state_dir" % (places.root, folder)]
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if free < _SPACE + needed:
        return ["%s has %d MiB free, and %d are needed" % (folder, free >> 20, (_SPACE + needed) >> 20)]
    return []


def check_cwd(wanted: Specification) -> list[str]:
    """Look at the working directory that the user names; the instance's own is made at the start."""
    if wanted.cwd and not os.path.isdir(wanted.cwd):
        return ["mlx_cwd %s is no directory on this node" % wanted.cwd]
    return []


def check_python(asked: Asked, probe: Probe) -> tuple[dict[str, Any], list[str]]:
    """Run the rank's interpreter once and return what it says of itself and MLX."""
    first = asked.specifications[0]
    python = first.argv[0]
    if not os.path.isabs(python):
        return {}, ["mlx_python %s is no absolute path" % python]
    if not os.access(python, os.X_OK) or os.path.isdir(python):
        return {}, ["mlx_python %s is not there or not executable on this node" % python]
    module = first.argv[2] if len(first.argv) > 2 and first.argv[1] == "-m" else ""
    cwd = first.cwd if first.cwd and os.path.isdir(first.cwd) else "/"
    code, out, err = probe([python, "-c", _PROBE, first.backend, module], dict(first.environment), cwd)
    lines = [line for line in out.splitlines() if line.startswith(_MARK)]
    if not lines:
        return {}, ["%s does not run (exit code %d): %s" % (python, code, (err or out).strip()[-300:] or "no output")]
    facts = json.loads(lines[-1][len(_MARK) :])
    problems = []
    if "error" in facts:
        problems.append("%s cannot import mlx (%s); install mlx for it, or set mlx_python" % (python, facts["error"]))
    elif not facts["backend"]:
        problems.append("mlx %s of %s has no backend %s" % (facts["mlx"], python, first.backend))
    local = any(name == module.replace(".", "/") + ".py" or name.startswith(module.split(".")[0] + "/") for name in first.files)
    if module and not facts.get("module") and not local:
        problems.append("%s has no module %s, and mlx_files brings none" % (python, module))
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
    return [] if shutil.which(name, path=path) else ["mlx_command %s is not on the PATH %s" % (name, path)]


def _check_file(wanted: Specification, name: str, mode: int, variable: str) -> list[str]:
    if os.path.normpath(name) in wanted.files:
        return []
    path = os.path.join(wanted.cwd or "/", name)
    if not os.path.isabs(name) and not wanted.cwd:
        return [
            "%s %s is looked for in the run's own work folder, which is empty: name the file in mlx_files too, "
            "give its absolute path on the node, or set mlx_cwd" % (variable, name)
        ]
    if not os.path.isfile(path):
        return ["%s %s is not there on this node" % (variable, path)]
    return [] if os.access(path, mode) else ["%s %s cannot be %s" % (variable, path, "run" if mode & os.X_OK else "read")]


def check_addresses(addresses: Sequence[str]) -> list[str]:
    """Look whether each address is configured here, by binding a datagram socket to it."""
    problems = []
    for ip in sorted({address.rpartition(":")[0] for address in addresses}):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((ip, 0))
            except OSError as error:
                problems.append("mlx_ips has %s, which is not configured on this node (%s)" % (ip, error.strerror or error))
    return problems


def _record(places: Places, one: Any) -> dict[str, Any]:
    view = one.to_json(places)
    return dict(view, record=one.record.to_json(), alive=one.alive, members=[vars(process) for process in one.members])
