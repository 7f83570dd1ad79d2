# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Linux behind the System protocol: `/proc`, nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._posix import PosixSystem
from ansible_collections.muster.mlx.plugins.module_utils._process import (
    MARKER,
    RANK_NAMES,
    Listener,
    Process,
)

_ESTABLISHED, _LISTEN = "01", "0A"  # include/net/tcp_states.h
_NAMES = {name.encode() for name in RANK_NAMES}
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


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
        return {pid: names[MARKER] for pid, names in self.environments(table).items() if MARKER in names}

    def environments(self, table: Mapping[int, Process]) -> dict[int, dict[str, str]]:
        """Read `/proc/<pid>/environ` of this user's processes; it is empty for a moment while a process executes."""
        found = {}
        for process in table.values():
            if process.uid != os.geteuid() or not process.alive:
                continue
            try:
                environ = _read(f"/proc/{process.pid}/environ")
            except OSError:
                continue
            if environ:
                found[process.pid] = parse_environ(environ)
        return found

    def arguments(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Read `/proc/<pid>/cmdline`."""
        return {pid: _words(pid) for pid in pids}

    def age(self, process: Process) -> float | None:
        """Compare the start ticks with the clock that they count, which nobody can set."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(process.start) / _TICKS

    def open_files(self, paths: Iterable[str]) -> dict[str, list[int]]:
        """Read where the links in `/proc/<pid>/fd` lead, of the processes that let this user do it."""
        wanted = set(paths)
        found: dict[str, list[int]] = {}
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()] if wanted else []:
            for path in wanted.intersection(_descriptors(pid)):
                found.setdefault(path, []).append(pid)
        return found

    def connections(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Join `/proc/net/tcp*` with the sockets that the processes hold."""
        remotes = {inode: remote for state, dummy, remote, inode in _tcp_rows() if state == _ESTABLISHED}
        return {pid: [remotes[inode] for inode in _socket_inodes(pid) if inode in remotes] for pid in pids}

    def endpoints(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Join them the same way."""
        locals_ = {inode: local for state, local, dummy, inode in _tcp_rows() if state == _ESTABLISHED}
        return {pid: [locals_[inode] for inode in _socket_inodes(pid) if inode in locals_] for pid in pids}

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

    def temporary(self) -> list[str]:
        """Return `/tmp`, for sessions without $TMPDIR."""
        return ["/tmp"]

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


def parse_environ(environ: bytes) -> dict[str, str]:
    """Return those of RANK_NAMES that are in the text of `/proc/<pid>/environ`."""
    found: dict[str, str] = {}
    for entry in environ.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in _NAMES:
            found.setdefault(name.decode(), value.decode("utf-8", "replace"))
    return found


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


def _words(pid: int) -> list[str]:
    try:
        line = _read(f"/proc/{pid}/cmdline")
    except OSError:
        return []
    return line.decode("utf-8", "replace").rstrip("\0").split("\0") if line else []


def _socket_inodes(pid: int) -> list[str]:
    return [match.group(1) for match in map(_SOCKET.match, _descriptors(pid)) if match]


def _descriptors(pid: int) -> list[str]:
    """Return what the descriptors of a process lead to; one that closes meanwhile hides no other."""
    folder = f"/proc/{pid}/fd"
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        with contextlib.suppress(OSError):
            found.append(os.readlink(os.path.join(folder, name)))
    return found


def _listener(local: str, holder: Process | None) -> Listener:
    address, dummy, port = local.rpartition(":")
    return Listener(address, int(port), holder.pid if holder else None, holder.command if holder else "")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
