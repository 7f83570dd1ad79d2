# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""macOS behind the System protocol: `ps`, `lsof` and `sysctl`, by absolute path and in the C locale."""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Iterable, Mapping

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._posix import PosixSystem
from ansible_collections.muster.mlx.plugins.module_utils._process import (
    MARKER,
    RANK_NAMES,
    Listener,
    Process,
)
from ansible_collections.muster.mlx.plugins.module_utils._system import Run

ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC0", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
"""`lstart` is strftime's %c: it moves with the locale and the time zone (adv_cmds ps/print.c)."""

_PS = ["/bin/ps", "-ww", "-o", "pid=,ppid=,pgid=,uid=,stat=,rss=,lstart=,command="]
_LINE = re.compile(
    r"\s*(?P<pid>\d+)\s+(?P<ppid>\d+)\s+(?P<pgid>\d+)\s+(?P<uid>\d+)\s+(?P<stat>\S+)\s+(?P<rss>\d+)\s+"
    r"(?P<start>\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s*(?P<command>.*)"
)
_NAMES = re.compile(r"\s({})=(\S+)".format("|".join(RANK_NAMES)))
_CONNECTION = re.compile(r"\sSSH_CONNECTION=(\S+ \d+ \S+ \d+)")  # the one value with spaces
_FILES_AT_ONCE = 200  # so that a long list of files does not become too long a command line


class MacSystem(PosixSystem):
    """The real Mac. A command that cannot be run is an error: it must not look like an empty answer."""

    def __init__(self, run: Run) -> None:
        """Keep the function that runs a command."""
        self._run = run

    def boot(self) -> str:
        """Return `kern.bootsessionuuid`, new at each boot, untouched by the clock (xnu kern_sysctl.c)."""
        return self._output(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]).strip()

    def table(self) -> dict[int, Process]:
        """Run `ps -ax`."""
        return parse_ps(self._output([*_PS, "-ax"]))

    def process(self, pid: int) -> Process | None:
        """Run `ps -p`, which exits 1 when there is no such process."""
        return parse_ps(self._output([*_PS, "-p", str(pid)], empty=1)).get(pid)

    def markers(self, table: Mapping[int, Process]) -> dict[int, str]:
        """Take them from the environments."""
        return {pid: names[MARKER] for pid, names in self.environments(table).items() if MARKER in names}

    def environments(self, table: Mapping[int, Process]) -> dict[int, dict[str, str]]:
        """Run `ps -E`, which shows the environment of this user's own processes (not of Apple-signed ones)."""
        return parse_environments(self._output(["/bin/ps", "-axEww", "-o", "pid=,command="]), table)

    def arguments(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Run `ps -p` on all of them; where an argument has a space in it, it comes in parts."""
        wanted = list(pids)
        if not wanted:
            return {}
        found = parse_ps(self._output([*_PS, "-p", ",".join(map(str, wanted))], empty=1))
        return {pid: found[pid].command.split() if pid in found else [] for pid in wanted}

    def age(self, process: Process) -> float | None:
        """Compare `lstart`, which has no fractions, with the clock."""
        return parse_age(process.start, self.now())

    def open_files(self, paths: Iterable[str]) -> dict[str, list[int]]:
        """Run `lsof` on the files; it exits 1 when one of them is not open, and `-w` keeps it from warning of those
        that are gone."""
        wanted = sorted(paths)
        found: dict[str, list[int]] = {}
        for first in range(0, len(wanted), _FILES_AT_ONCE):
            output = self._lsof(["-w", "--", *wanted[first : first + _FILES_AT_ONCE]])
            for pid, names in parse_names(output).items():
                for name in names:
                    found.setdefault(name, []).append(pid)
        return found

    def connections(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Run `lsof` on the processes; it exits 1 when nothing matches."""
        wanted = [str(pid) for pid in pids]
        if not wanted:
            return {}
        output = self._lsof(["-a", "-p", ",".join(wanted), "-iTCP", "-sTCP:ESTABLISHED"])
        return {int(pid): parse_lsof(output).get(int(pid), []) for pid in wanted}

    def endpoints(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """Run `lsof` the same way and take this node's end."""
        wanted = [str(pid) for pid in pids]
        if not wanted:
            return {}
        found = parse_names(self._lsof(["-a", "-p", ",".join(wanted), "-iTCP", "-sTCP:ESTABLISHED"]))
        return {
            int(pid): [name.partition("->")[0] for name in found.get(int(pid), []) if "->" in name] for pid in wanted
        }

    def listeners(self) -> list[Listener]:
        """Run `lsof` on the listening sockets; without root it sees this user's only."""
        return parse_listeners(self._lsof(["-iTCP", "-sTCP:LISTEN"]))

    def temporary(self) -> list[str]:
        """Run `getconf`: `mktemp` asks confstr(3) before it looks at $TMPDIR (shell_cmds, mktemp.c)."""
        return [self._output(["/usr/bin/getconf", "DARWIN_USER_TEMP_DIR"]).strip()]

    def wired(self) -> int | None:
        """Run `vm_stat`; a loaded model is wired memory, and stays so when its rank was killed (until a reboot)."""
        return parse_wired(self._output(["/usr/bin/vm_stat"]))

    def _lsof(self, arguments: list[str]) -> str:
        return self._output(["/usr/sbin/lsof", "-nP", "-FpcLn", *arguments], empty=1)

    def _output(self, argv: list[str], empty: int = 0) -> str:
        code, out, err = self._run(argv, ENVIRONMENT)
        if code not in (0, empty) or (code and err.strip()):
            raise MusterError(
                f"{argv[0]} should answer",
                f"it exited {code}: {err.strip() or out.strip() or 'no message'}",
                "Run it by hand on this node: {}".format(" ".join(argv)),
            )
        return out


def parse_ps(text: str) -> dict[int, Process]:
    """Turn `ps -o pid=,ppid=,pgid=,uid=,stat=,rss=,lstart=,command=` into Processes; `rss` comes in KiB."""
    found = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            pid = int(match["pid"])
            found[pid] = Process(
                pid=pid,
                ppid=int(match["ppid"]),
                pgid=int(match["pgid"]),
                uid=int(match["uid"]),
                state=match["stat"][0],
                start=match["start"],
                rss=int(match["rss"]) * 1024,
                command=match["command"].strip(),
            )
    return found


def parse_environments(text: str, table: Mapping[int, Process]) -> dict[int, dict[str, str]]:
    """Turn `ps -E -o pid=,command=` into those of RANK_NAMES that stand behind each command of this user.

    The table tells where a command ends, so that its words are not taken for its environment. Where nothing follows,
    the environment is hidden, and where another command stands, the process has become another program meanwhile: such
    processes are left out.
    """
    found = {}
    for line in text.splitlines():
        number, dummy, rest = line.strip().partition(" ")
        process = table.get(int(number)) if number.isdigit() else None
        if process is None or process.uid != os.geteuid() or not rest.lstrip().startswith(process.command):
            continue
        environment = rest.lstrip()[len(process.command) :]
        if "=" in environment:
            found[process.pid] = dict([*_NAMES.findall(environment)[::-1], *_named_connection(environment)])
    return found


def _named_connection(environment: str) -> list[tuple[str, str]]:
    match = _CONNECTION.search(environment)
    return [("SSH_CONNECTION", match[1])] if match else []


def parse_markers(text: str, table: Mapping[int, Process]) -> dict[int, str]:
    """Return MARKER's value for each process that has it."""
    return {pid: names[MARKER] for pid, names in parse_environments(text, table).items() if MARKER in names}


def parse_age(start: str, now: float) -> float | None:
    """Return the seconds since `lstart`, None when it cannot be understood."""
    try:
        return now - calendar.timegm(time.strptime(start, "%a %b %d %H:%M:%S %Y"))
    except ValueError:
        return None


def parse_names(text: str) -> dict[int, list[str]]:
    """Turn `lsof -Fpn` into the names that each process has open."""
    found: dict[int, list[str]] = {}
    pid = 0
    for line in text.splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line.startswith("n"):
            found.setdefault(pid, []).append(line[1:])
    return found


def parse_lsof(text: str) -> dict[int, list[str]]:
    """Turn `lsof -Fpn` of established sockets (`n10.0.0.1:5->10.0.0.2:6`) into remote addresses by pid."""
    named = {
        pid: [name.partition("->")[2] for name in names if "->" in name] for pid, names in parse_names(text).items()
    }
    return {pid: names for pid, names in named.items() if names}


def parse_listeners(text: str) -> list[Listener]:
    """Turn `lsof -FpcLn` of listening sockets (`n*:5000`, `n127.0.0.1:80`, `n[::1]:80`) into Listeners."""
    found = []
    pid, command = 0, ""
    for line in text.splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line.startswith("c"):
            command = line[1:]
        elif line.startswith("n"):
            address, dummy, port = line[1:].rpartition(":")
            if port.isdigit():
                found.append(Listener({"*": "0.0.0.0"}.get(address, address.strip("[]")), int(port), pid, command))
    return found


def parse_wired(text: str) -> int | None:
    """Return the wired bytes of `vm_stat`'s output, None when it names no page size or no wired pages."""
    size = re.search(r"page size of (\d+) bytes", text)
    pages = re.search(r"Pages wired down:\s+(\d+)\.", text)
    return int(size[1]) * int(pages[1]) if size and pages else None
