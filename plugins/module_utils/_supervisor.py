# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor: one small program per rank that outlives ssh, starts the rank behind a gate and tells how it ended.

It runs by itself on the node (`python3 -I -S -X utf8 supervisor.py`) and imports nothing of Muster, so that it
needs no more than the standard library and little memory. Its job comes as JSON on standard input, so that
no value of the rank's environment is on a command line, in a file or in the supervisor's own environment.

The order is what makes it safe. The rank is forked and waits on a pipe; its identity is in the record on
disk before the pipe is written; if the supervisor dies in between, the pipe closes and the rank
exits without having run its program. A teardown writes the fence and then reads the records; the supervisor
writes the record and then reads the fence: one of the two always sees the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as mypy knows it; importing typing would cost memory for the rank's whole life
if TYPE_CHECKING:  # pragma: no cover
    from typing import Any

UTF8 = ("utf-8", "surrogateescape")
AWAITED = (signal.SIGTERM, signal.SIGCHLD)
UNBORN = 125  # exit code of a rank that its gate never let through


def main() -> None:
    """Do the job on standard input, from the fork of the rank to its exit.json."""
    job = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Waited for below together with the rank's end: a handler would miss the signal that comes right before waitpid.
    signal.signal(
        signal.SIGCHLD, lambda number, frame: None
    )  # macOS drops a signal without a handler, even a blocked one
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    gate, release = os.pipe()
    failure, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(release)
        os.close(failure)
        become_rank(job, gate, report)
    os.close(gate)
    os.close(report)
    unborn = ""
    with contextlib.suppress(OSError):  # the rank did it first
        os.setpgid(pid, pid)
    write_json(job["record_path"], dict(job["record"], **born(pid)))
    time.sleep(job["hold"])
    if fence_token(job["fence_path"]) == job["record"]["fence"]:
        with contextlib.suppress(BrokenPipeError):  # it was killed while it waited; waitpid tells how
            os.write(release, b"1")
    else:
        unborn = "a teardown passed before it started"
    os.close(release)
    unborn = unborn or os.read(failure, 4096).decode("utf-8", "replace")
    if not unborn:
        with contextlib.suppress(OSError):  # a teardown that removed the folder knows
            os.close(os.open(job["began_path"], os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    leave(job, await_end(pid), unborn)


def await_end(pid: int) -> int:
    """Wait for the rank's end and return its status; pass on what the supervisor is sent meanwhile."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        number = signal.sigwait(AWAITED)
        if number == signal.SIGTERM:
            pass_on(pid, number)


def pass_on(pid: int, number: int) -> None:
    """Send the rank what the supervisor was sent, so that ending the supervisor ends the rank and is still reported."""
    with contextlib.suppress(OSError):  # it ended meanwhile
        os.killpg(pid, number)


def become_rank(job: dict[str, Any], gate: int, report: int) -> None:
    """Turn this forked process into the rank, once the gate opens; never returns."""
    code = UNBORN
    try:
        os.setpgid(0, 0)
        log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if os.read(gate, 1) == b"1":
            code = 127
            os.chdir(job["record"]["cwd"])
            environment = {name.encode(*UTF8): value.encode(*UTF8) for name, value in job["environment"].items()}
            argv = [word.encode(*UTF8) for word in job["record"]["argv"]]
            os.execvpe(argv[0], argv, environment)
    except (OSError, ValueError) as error:  # ValueError: a word that no program can be given, with a NUL for example
        words = "cannot run {} in {}: {}".format(
            job["record"]["argv"][0], job["record"]["cwd"], getattr(error, "strerror", None) or error
        )
        os.write(report, words.encode("utf-8", "replace"))
    finally:
        os._exit(code)


def born(pid: int) -> dict[str, Any]:
    """Return the fields of the record that are known now: who the rank and its supervisor are."""
    starts = start_times([pid, os.getpid()])
    return {
        "pid": pid,
        "pgid": pid,
        "start": starts[0],
        "supervisor_pid": os.getpid(),
        "supervisor_start": starts[1],
        "born": time.time(),
    }


def start_times(pids: list[int]) -> list[str]:
    """Return each process's start as the System protocol spells it."""
    if os.path.isdir("/proc/self"):
        return [open(f"/proc/{pid}/stat", "rb").read().rpartition(b")")[2].split()[19].decode() for pid in pids]
    return [lstart(pid) for pid in pids]


def lstart(pid: int) -> str:
    """Ask `ps` for a process's start, on macOS; importing subprocess would cost memory for the rank's whole life."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(into, 1)
            os.execve("/bin/ps", ["ps", "-o", "lstart=", "-p", str(pid)], {"LC_ALL": "C", "TZ": "UTC0"})
        finally:
            os._exit(127)
    os.close(into)
    with os.fdopen(out, "rb") as answer:
        words = answer.read().decode().strip()
    os.waitpid(child, 0)
    return words


def fence_token(path: str) -> str:
    """Return the token of the run's fence, empty where there is none; one that cannot be read matches no launch."""
    try:
        with open(path, "rb") as file:
            return str(json.loads(file.read().decode("utf-8"))["token"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"


def leave(job: dict[str, Any], status: int, unborn: str) -> None:
    """Write exit.json and remove the coordination file; a rank that was fenced off leaves no record either."""
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = None if killed else os.WEXITSTATUS(status)
    with contextlib.suppress(FileNotFoundError):  # a teardown removed the folder: it knows
        write_json(job["exit_path"], {"code": code, "signal": killed, "time": time.time(), "unborn": unborn})
    for path in [job["coordination"]] + ([job["record_path"]] if code == UNBORN and unborn else []):
        with contextlib.suppress(OSError):
            os.unlink(path)


def write_json(path: str, data: dict[str, Any]) -> None:
    """Write a file of mode 0600 that appears whole."""
    temporary = f"{path}.{os.getpid()}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write((json.dumps(data, indent=1, sort_keys=True) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


if __name__ == "__main__":
    main()
