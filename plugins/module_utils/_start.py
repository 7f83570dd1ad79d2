# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting a node's ranks: folders, coordination files and intended records first, then one supervisor per rank."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.muster.mlx.plugins.module_utils import _supervisor
from ansible_collections.muster.mlx.plugins.module_utils._coordination import rank_environment, ring_document
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import log_path, tail
from ansible_collections.muster.mlx.plugins.module_utils._process import System
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, MANIFEST, STAGING, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification, digests, new_key
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import (
    create,
    make_private,
    read_exit,
    read_record,
    write_json,
    write_whole,
)
from ansible_collections.muster.mlx.plugins.module_utils._unpack import unpack

# Seconds. The last rank of a ring connects first, and one that finds nobody listening yet waits a whole second
# before it tries again (ring.cpp, CONN_WAIT): so it starts a little after the others.
_HOLD = 0.2
_BIRTH = 15.0  # seconds; a fork, two small files and an exec take milliseconds


@dataclass(frozen=True)
class Launch:
    """What all ranks of an instance on this node share.

    `fence` is the token seen, `archive` the unpacked-to-be mlx_files.
    """

    instance: str
    issued: float
    fence: str
    archive: str = ""


def start(
    places: Places, wanted: Sequence[Specification], launch: Launch, login: Mapping[str, str], system: System
) -> list[Record]:
    """Start the ranks and return their records, complete with pids.

    Raises MusterError when a rank was not born: its supervisor died or was late, or a teardown passed. That a program
    cannot be run may show here, or only in the rank's exit.json.
    """
    run = wanted[0].run
    work = make_private(places, places.work(run, launch.instance))
    folder = places.instance(run, launch.instance)
    if launch.archive:
        write_json(os.path.join(folder, MANIFEST), dict(wanted[0].files))
        unpack(launch.archive, os.path.join(folder, STAGING), work, wanted[0].files)
    supervisor = os.path.join(folder, "supervisor.py")
    write_whole(supervisor, _supervisor_source())
    intended = [prepare(places, specification, launch, work, system) for specification in wanted]
    children: list[subprocess.Popen[bytes]] = []
    try:
        for specification, record in zip(wanted, intended):
            children.append(_spawn(places, supervisor, specification, record, login))
        return [_await_birth(places, record, child, system) for record, child in zip(intended, children)]
    except (MusterError, OSError):
        # A supervisor that is late must not start its rank after this launch was given up. Those that have recorded
        # their rank's birth are left to the teardown that follows.
        for record, child in zip(intended, children):
            if _born(places, record) is None:
                child.kill()
                child.wait()
        raise


def prepare(places: Places, wanted: Specification, launch: Launch, work: str, system: System) -> Record:
    """Make a rank's folder with its coordination file, empty log and intended record."""
    key = new_key()
    record = Record(
        run=wanted.run,
        instance=launch.instance,
        rank=wanted.rank,
        backend=wanted.backend,
        argv=wanted.argv,
        cwd=wanted.cwd or work,
        hosts=wanted.hosts,
        environment=digests(wanted.environment, key),
        secrets=digests(wanted.secrets, key),
        key=key,
        files=wanted.files,
        boot=system.boot(),
        issued=launch.issued,
        created=system.now(),
        fence=launch.fence,
        size=wanted.size,
    )
    folder = make_private(places, places.rank(record.run, record.instance, record.rank))
    if wanted.size > 1:
        create(places.coordination(record.run, record.instance, record.rank), ring_document(wanted.hosts))
    create(log_path(places, record))
    write_json(os.path.join(folder, "record.json"), record.to_json())
    return record


def _spawn(
    places: Places, supervisor: str, wanted: Specification, record: Record, login: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    folder = places.rank(record.run, record.instance, record.rank)
    coordination = places.coordination(record.run, record.instance, record.rank)
    environment = rank_environment(
        login,
        record.rank,
        record.marker,
        coordination if wanted.size > 1 else None,
        {**wanted.environment, **wanted.secrets},
    )
    job = {
        "record": record.to_json(),
        "record_path": os.path.join(folder, "record.json"),
        "began_path": os.path.join(folder, BEGAN),
        "exit_path": os.path.join(folder, "exit.json"),
        "fence_path": places.fence(record.run),
        "coordination": coordination,
        "log": log_path(places, record),
        "environment": environment,
        "hold": _HOLD if wanted.backend == "ring" and 0 < record.rank == wanted.size - 1 else 0,
    }
    # A session of its own and no descriptor of the ssh session: without either the rank dies with the
    # connection, or the play hangs on it, depending on pipelining.
    create(_supervisor_log(places, record))
    with open(_supervisor_log(places, record), "ab") as log:
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [sys.executable, "-I", "-S", "-X", "utf8", supervisor, record.marker],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            close_fds=True,
            cwd="/",
            env={"PATH": environment["PATH"], "LC_ALL": "C"},
        )
    if child.stdin is not None:
        # A supervisor that died at once leaves a broken pipe; what it said is read while waiting for the birth.
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(json.dumps(job).encode())
    return child


def _await_birth(places: Places, intended: Record, child: subprocess.Popen[bytes], system: System) -> Record:
    deadline = system.monotonic() + _BIRTH
    pause = 0.005
    while True:
        over = child.poll() is not None or system.monotonic() > deadline
        record = _born(places, intended)
        end = read_exit(places, intended)
        if end is not None and end.unborn:
            raise MusterError(f"Rank {intended.rank} should run its program", end.unborn, rank=intended.rank)
        if record is not None:
            return record
        if over:
            path = _supervisor_log(places, intended)
            raise MusterError(
                f"The supervisor of rank {intended.rank} should record its birth within {_BIRTH:g} s",
                " ".join(tail(path, 3)) or f"it {'waits' if child.poll() is None else 'ended'} and says nothing",
                f"See {path}",
                rank=intended.rank,
            )
        system.sleep(pause)
        pause = min(0.1, pause * 1.5)


def _born(places: Places, intended: Record) -> Record | None:
    record = read_record(places, intended.run, intended.instance, intended.rank)
    return record if isinstance(record, Record) and record.pid else None


def _supervisor_source() -> bytes:
    # On a node the modules come in a zip file; its importer has the source, as a file's has.
    get_source = getattr(_supervisor.__loader__, "get_source", None)
    source = get_source(_supervisor.__name__) if get_source else None
    if not source:
        raise MusterError("The supervisor's source comes with Muster", "this installation lacks it", "Install it again")
    return bytes(source, "utf-8")


def _supervisor_log(places: Places, record: Record) -> str:
    return os.path.join(places.rank(record.run, record.instance, record.rank), "supervisor.log")


def with_python(wanted: Specification, python: str) -> Specification:
    """Fill in the node's own interpreter where the launch left it open (an empty first word)."""
    return replace(wanted, argv=(wanted.argv[0] or python, *wanted.argv[1:]))
