# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the launcher of a rank lives. Pure functions over processes.

A rank of mlx.launch is a child of mlx.launch where that is on the same machine, else of an ssh session. Such a session
outlives its launcher: when mlx.launch is killed, its ssh clients go on without it, and so do the ranks. So from the
rank's side a session says nothing; who holds its other end does, on the machine where the ssh client is. Each machine
tells of its ssh clients (`ssh_clients`), and whoever has both sides puts them together by the connection's endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.muster.mlx.plugins.module_utils._process import Process, System

ALIVE, GONE, UNKNOWN = "alive", "gone", "unknown"

_DEPTH = 64  # ancestors; a chain of processes is a handful long, and a table read while it changes may hold a loop
_EXO = re.compile(r"(?:^|/)(?:exo(?:[./].*)?|EXO(?:\.app/.*)?)$")
_SSHD = ("sshd", "sshd-session")
_INIT = ("systemd", "launchd", "init")
_SCRIPT = "pidfile=$(mktemp)"
"""What the script that mlx.launch gives to ssh has near its beginning (make_launch_script)."""


@dataclass(frozen=True)
class Launcher:
    """Who started a rank: `state` ALIVE, GONE, or UNKNOWN when the rank hangs on an ssh connection from `endpoint`,
    the `ip:port` of the ssh client; and the same in words."""

    state: str
    words: str
    endpoint: str = ""


def ancestors(process: Process, table: Mapping[int, Process]) -> list[Process]:
    """Return a process's living ancestors up to, and without, process 1 and a user's own init, nearest first."""
    found: list[Process] = []
    one = table.get(process.ppid)
    while one is not None and one.pid > 1 and one not in found and len(found) < _DEPTH and not _is_init(one):
        found.append(one)
        one = table.get(one.ppid)
    return found


def is_mlx_launch(words: Sequence[str]) -> bool:
    """Tell whether a command line is mlx.launch's: the script, or its module run with -m."""
    return any(_base(word) == "mlx.launch" or word == "mlx._distributed_utils.launch" for word in words[:6])


def is_exo(words: Sequence[str]) -> bool:
    """Tell whether a command line may be exo's: its command, its module, its application, or its interpreter.

    It may say so of others too, since all that follows from it is that files of exo are kept.
    """
    return any(_EXO.search(word) for word in words[:6])


def launcher_of(
    process: Process, table: Mapping[int, Process], words: Mapping[int, Sequence[str]], connection: str
) -> Launcher:
    """Tell who started a rank. `words` are the command lines of its ancestors and of process 1, `connection` is its
    SSH_CONNECTION."""
    chain = ancestors(process, table)
    for pid in [*(one.pid for one in chain), 1]:
        # In a container process 1 may be mlx.launch itself.
        if is_mlx_launch(words.get(pid, ())):
            return Launcher(ALIVE, f"mlx.launch, process {pid}")
    if process.ppid == 0:
        return Launcher(UNKNOWN, "not of this process namespace")
    if not chain:
        return Launcher(GONE, "gone")
    if _base(chain[0].command) in _SSHD:
        return _at_the_other_end(connection)
    return Launcher(ALIVE, f"process {chain[0].pid} ({_base(chain[0].command)})")


def _at_the_other_end(connection: str) -> Launcher:
    ip, dummy, rest = connection.partition(" ")
    port = rest.partition(" ")[0]
    if not port.isdigit():
        return Launcher(UNKNOWN, "at the other end of an ssh connection")
    return Launcher(UNKNOWN, f"ssh from {ip} port {port}", f"{ip}:{port}")


def with_clients(launcher: Launcher, clients: Mapping[str, str]) -> Launcher:
    """Say what is known of the other end. `clients` is what ssh_clients said, of all machines that were asked."""
    state = clients.get(launcher.endpoint, UNKNOWN)
    if launcher.state != UNKNOWN or state == UNKNOWN:
        return launcher
    words = "mlx.launch there is gone" if state == GONE else "its launcher there lives"
    return Launcher(state, f"{launcher.words}, {words}", launcher.endpoint)


def ssh_clients(system: System, table: Mapping[int, Process], uid: int) -> dict[str, str]:
    """Return, for each connection of an ssh client of this user (by this machine's `ip:port`), ALIVE or GONE: whether
    who started it lives.

    GONE is said of the clients of mlx.launch only, which carry its script. A connection that several sessions share
    (ControlMaster) belongs to a process without one, and nothing is said of it.
    """
    clients = [one for one in table.values() if one.uid == uid and one.alive and _base(one.command) == "ssh"]
    words = system.arguments([one.pid for one in clients])
    clients = [one for one in clients if _base(" ".join(words[one.pid][:1])) == "ssh"]
    if not clients:
        return {}
    parents = {one.pid: ancestors(one, table) for one in clients}
    words.update(system.arguments({1, *(one.pid for chain in parents.values() for one in chain)}))
    held = system.endpoints([one.pid for one in clients])
    states = {one.pid: _client_state(words[one.pid], parents[one.pid], words) for one in clients}
    return {endpoint: states[pid] for pid, endpoints in held.items() for endpoint in endpoints if states[pid]}


def _client_state(own: Sequence[str], chain: Sequence[Process], words: Mapping[int, Sequence[str]]) -> str:
    # A shell between the two carries the script as well, and is not who started it.
    others = [one for one in chain if not _has_script(words.get(one.pid, ()))]
    if others or is_mlx_launch(words.get(1, ())):
        return ALIVE
    return GONE if _has_script(own) else ""


def _has_script(words: Sequence[str]) -> bool:
    return any(_SCRIPT in word for word in words)


def _base(command: str) -> str:
    # `sshd: me@ttys001` is how sshd calls its sessions; Linux gives a name, macOS the whole command line.
    return command.partition(" ")[0].rstrip(":").rpartition("/")[2]


def _is_init(process: Process) -> bool:
    return process.ppid in (0, 1) and _base(process.command) in _INIT
