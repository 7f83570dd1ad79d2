# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Linux behind the System protocol: `/proc`, nothing else."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._posix import PosixSystem
from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER, Listener, Process

_ESTABLISHED, _LISTEN = "01", "0A"  # include/net/tcp_states.h
_PAGE = os.sysconf("SC_PAGE_SIZE")


class LinuxSystem(PosixSystem):
    """The real node. Reading a process that ends meanwhile is no error: it is gone."""

    def boot(self) -> str:
        """Return the kernel's boot id."""
        return _read("/proc/sys/kernel/random/boot_id").decode().strip()

    def table(self) -> dict[int, Process]:
        """Read `/proc/*/stat`."""
        found = (self.process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return {process.pid: process for process in found if process is not None}

    def process(self, pid: int) -> Process | None:
        """Read `/proc/<pid>/stat`."""
        try:
            stat = _read(f"/proc/{pid}/stat")
            uid = os.stat(f"/proc/{pid}").st_uid
        except (FileNotFoundError, ProcessLookupError):
            return None
        return parse_stat(stat, uid)

    def markers(self, table: Mapping[int, Process]) -> dict[int, str]:
        """Read `/proc/<pid>/environ` of this user's processes."""
        wanted = MARKER.encode() + b"="
        found: dict[int, str] = {}
        for process in table.values():
            if process.uid != os.geteuid() or not process.alive:
                continue
            try:
                environ = _read(f"/proc/{process.pid}/environ")
            except OSError:
                continue
            for entry in environ.split(b"\0"):
                if entry.startswith(wanted):
                    found[process.pid] = entry[len(wanted) :].decode("utf-8", "replace")
        return found

    def connections(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Join `/proc/net/tcp*` with the sockets that the processes hold."""
        remotes = {inode: remote for state, dummy, remote, inode in _tcp_rows() if state == _ESTABLISHED}
        return {pid: [remotes[inode] for inode in _socket_inodes(pid) if inode in remotes] for pid in pids}

    def listeners(self) -> list[Listener]:
        """Join the listening rows of `/proc/net/tcp*` with the processes that can be read."""
        rows = {inode: local for state, local, dummy, inode in _tcp_rows() if state == _LISTEN}
        if not rows:
            return []
        holders: dict[str, Process] = {}
        for process in self.table().values():
            for inode in _socket_inodes(process.pid):
                if inode in rows:
                    holders[inode] = process
        return [_listener(local, holders.get(inode)) for inode, local in rows.items()]

    def wired(self) -> None:
        """Return None: Linux frees a rank's memory with the rank."""
        return None


def parse_stat(stat: bytes, uid: int) -> Process:
    """Turn the text of `/proc/<pid>/stat` into a Process; the command may hold spaces and parentheses (proc(5))."""
    head, dummy, tail = stat.decode("utf-8", "replace").rpartition(")")
    pid, dummy, command = head.partition(" (")
    fields = tail.split()
    return Process(
        pid=int(pid),
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        uid=uid,
        state=fields[0],
        start=fields[19],
        rss=int(fields[21]) * _PAGE,
        command=command,
    )


def parse_tcp(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (state, local, remote, inode) of `/proc/net/tcp` or `tcp6`; addresses as `ip:port`."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        yield fields[3], _address(fields[1]), _address(fields[2]), fields[9]


def _address(field: str) -> str:
    raw, dummy, port = field.partition(":")
    words = [struct.pack("=I", int(raw[i : i + 8], 16)) for i in range(0, len(raw), 8)]
    packed = b"".join(words)
    mapped = packed.startswith(bytes(10) + b"\xff\xff")
    if len(packed) == 4 or mapped:
        return f"{socket.inet_ntop(socket.AF_INET, packed[-4:])}:{int(port, 16)}"
    return f"{socket.inet_ntop(socket.AF_INET6, packed)}:{int(port, 16)}"


def _tcp_rows() -> Iterator[tuple[str, str, str, str]]:
    for name in ("tcp", "tcp6"):
        try:
            text = _read("/proc/net/" + name).decode()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise MusterError("The node's sockets are read from /proc/net", str(error)) from error
        yield from parse_tcp(text)


def _socket_inodes(pid: int) -> list[str]:
    found = []
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
            if match:
                found.append(match.group(1))
    except OSError:
        return found
    return found


def _listener(local: str, holder: Process | None) -> Listener:
    address, dummy, port = local.rpartition(":")
    return Listener(address, int(port), holder.pid if holder else None, holder.command if holder else "")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
