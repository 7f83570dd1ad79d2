"""macOS: the output of its commands as tables, and the system with a function in place of the commands.

The fixtures are written after the formats that adv_cmds `ps`, `lsof -F` and `vm_stat` print, with values of their own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._macos import (
    ENVIRONMENT,
    MacSystem,
    parse_listeners,
    parse_lsof,
    parse_markers,
    parse_ps,
    parse_wired,
)
from ansible_collections.muster.mlx.plugins.module_utils._process import Listener, Process, System

from tests.unit.make import MARK, process

PS = """\
    1     0     1     0 Ss     9248 Sat Nov 28 07:00:01 2026     /sbin/launchd
  611     1   611   501 S    104832 Sat Nov 28 07:04:59 2026     /Applications/Some App.app/Contents/MacOS/Some App -x
 4711  4710  4711   501 U+  8388608 Mon Nov 30 20:45:09 2026     /opt/homebrew/bin/python3 train.py --epochs 3
 4712  4711  4711   501 Z         0 Wed Dec  2 04:37:35 2026     <defunct>
99998     1 99998   501 T      2048 Sun Feb 28 23:59:59 2027     (python3)
"""


def test_parse_ps() -> None:
    found = parse_ps(PS)
    assert list(found) == [1, 611, 4711, 4712, 99998]
    assert found[4711] == Process(
        4711, 4710, 4711, 501, "U", "Mon Nov 30 20:45:09 2026", 8 << 30, "/opt/homebrew/bin/python3 train.py --epochs 3"
    )
    assert found[611].command == "/Applications/Some App.app/Contents/MacOS/Some App -x"
    assert found[4712].start == "Wed Dec  2 04:37:35 2026"
    assert [one.alive for one in found.values()] == [True, True, True, False, True]
    assert [one.uninterruptible for one in found.values()] == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("  77     1    77   501 S     100 Sat Nov 28 07:04:59 2026     ", ""),
        ("  77     1    77   501 S     100 Sat Nov 28 07:04:59 2026     a  b   c", "a  b   c"),
        (
            "  77     1    77   501 S     100 Sat Nov 28 07:04:59 2026     echo 1 2 3 4 S 5 Sun Nov 29 07:04:59 2026 x",
            "echo 1 2 3 4 S 5 Sun Nov 29 07:04:59 2026 x",
        ),
        ("  77     1    77   501 SNs+  100 Sat Nov 28 07:04:59 2026     nice", "nice"),
        ("  77     1    77   501 ?     100 Sat Nov 28 07:04:59 2026     odd", "odd"),
    ],
)
def test_parse_ps_takes_any_command(line: str, command: str) -> None:
    one = parse_ps(line + "\n")[77]
    assert (one.command, one.start, one.pgid) == (command, "Sat Nov 28 07:04:59 2026", 77)


@pytest.mark.parametrize("text", ["", "\n", "  PID  PPID STARTED COMMAND\n", "ps: bogus: keyword not found\n"])
def test_parse_ps_of_what_is_no_process(text: str) -> None:
    assert parse_ps(text) == {}


def table(*processes: Process) -> Mapping[int, Process]:
    return {one.pid: one for one in processes}


RANK = process(4711, command="/opt/homebrew/bin/python3 train.py")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(
            f" 4711 {RANK.command} HOME=/Users/me MUSTER_RANK={MARK} TERM=dumb", {4711: MARK}, id="in the middle"
        ),
        pytest.param(f" 4711 {RANK.command} MUSTER_RANK={MARK}", {4711: MARK}, id="at the end"),
        pytest.param(f" 4711 {RANK.command} HOME=/Users/me", {}, id="none"),
        pytest.param(f" 4711 {RANK.command} NOT_MUSTER_RANK={MARK}", {}, id="name that ends alike"),
        pytest.param(f" 4711 {RANK.command} MUSTER_RANKS={MARK}", {}, id="name that starts alike"),
        pytest.param(f" 4711 {RANK.command}", {}, id="environment hidden (Apple-signed, other user)"),
        pytest.param(f"   12 /bin/x MUSTER_RANK={MARK}", {}, id="process that the table lacks"),
        pytest.param(
            f" 4711 {RANK.command} OLD=x y=MUSTER_RANK= MUSTER_RANK={MARK}", {4711: MARK}, id="value with spaces"
        ),
        pytest.param("", {}, id="nothing"),
    ],
)
def test_parse_markers(line: str, found: dict[int, str]) -> None:
    assert parse_markers(line + "\n", table(RANK)) == found


@pytest.mark.parametrize(
    "command", [f"grep MUSTER_RANK={MARK}", f"ssh mac2 env MUSTER_RANK={MARK} python3 x.py", f"vi MUSTER_RANK={MARK}"]
)
def test_a_marker_among_the_arguments_is_none(command: str) -> None:
    """`ps -E` prints the environment right behind the command, and the table says where the command ends."""
    one = process(4711, command=command)
    assert parse_markers(f" 4711 {command} HOME=/Users/me\n", table(one)) == {}


def test_another_users_marker_does_not_count() -> None:
    """As System.markers promises, and LinuxSystem does."""
    one = process(4711, uid=RANK.uid + 1, command="python3")
    assert parse_markers(f" 4711 python3 MUSTER_RANK={MARK}\n", table(one)) == {}


ESTABLISHED = """\
p4711
cpython3.13
Lme
f7
n10.0.0.1:49152->10.0.0.2:32324
f8
n10.0.0.1:49153->10.0.0.2:32325
f9
n[fd00::1]:49154->[fd00::2]:32326
p4800
cpython3.13
Lme
f5
n127.0.0.1:32323->127.0.0.1:49160
"""


def test_parse_lsof() -> None:
    assert parse_lsof(ESTABLISHED) == {
        4711: ["10.0.0.2:32324", "10.0.0.2:32325", "[fd00::2]:32326"],
        4800: ["127.0.0.1:49160"],
    }
    assert parse_lsof("") == {}


LISTENING = """\
p580
cControlCenter
Lme
f11
n*:5000
f12
n*:7000
p4711
cpython3.13 -m x
Lme
f3
n127.0.0.1:32323
f4
n[::1]:8080
f5
n[fe80:4::1]:9000
p4800
cnothing
Lroot
f3
n*:*
"""


def test_parse_listeners() -> None:
    assert parse_listeners(LISTENING) == [
        Listener("0.0.0.0", 5000, 580, "ControlCenter"),
        Listener("0.0.0.0", 7000, 580, "ControlCenter"),
        Listener("127.0.0.1", 32323, 4711, "python3.13 -m x"),
        Listener("::1", 8080, 4711, "python3.13 -m x"),
        Listener("fe80:4::1", 9000, 4711, "python3.13 -m x"),
    ]
    assert parse_listeners("") == []


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages wired down:          3.\n", 3 * 16384),
        (
            "Mach Virtual Memory Statistics: (page size of 4096 bytes)\nPages free: 9.\nPages wired down: 1000000.\n",
            4096000000,
        ),
        ("Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free: 9.\n", None),
        ("Pages wired down: 3.\n", None),
        ("", None),
    ],
)
def test_parse_wired(text: str, size: int | None) -> None:
    assert parse_wired(text) == size


class Commands:
    """In place of running a command: gives one answer, and keeps what was asked."""

    def __init__(self, code: int = 0, out: str = "", err: str = "") -> None:
        """Remember the answer."""
        self.answer = (code, out, err)
        self.asked: list[list[str]] = []

    def __call__(self, argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
        """Answer."""
        assert environment == ENVIRONMENT
        assert argv[0].startswith("/")
        self.asked.append(argv)
        return self.answer


LOOKS: dict[str, Callable[[System], object]] = {
    "boot": lambda node: node.boot(),
    "table": lambda node: node.table(),
    "process": lambda node: node.process(4711),
    "markers": lambda node: node.markers({}),
    "connections": lambda node: node.connections([4711]),
    "listeners": lambda node: node.listeners(),
    "wired": lambda node: node.wired(),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(("code", "err"), [(1, "it broke"), (2, ""), (127, "not found"), (-signal.SIGKILL, "")])
def test_a_command_that_fails_is_no_empty_answer(look: str, code: int, err: str) -> None:
    run = Commands(code, "", err)
    with pytest.raises(MusterError) as caught:
        LOOKS[look](MacSystem(run))
    assert f"exited {code}" in str(caught.value)
    assert " ".join(run.asked[0]) in str(caught.value)


@pytest.mark.parametrize(
    ("look", "answer"),
    [("process", None), ("connections", {4711: []}), ("listeners", [])],
    ids=str,
)
def test_where_exit_code_1_means_nothing_there(look: str, answer: object) -> None:
    assert LOOKS[look](MacSystem(Commands(1))) == answer


@pytest.mark.parametrize("look", ["boot", "table", "markers", "wired"])
def test_where_exit_code_1_means_trouble(look: str) -> None:
    with pytest.raises(MusterError, match="no message"):
        LOOKS[look](MacSystem(Commands(1)))


def test_what_is_asked() -> None:
    node = MacSystem(Commands(0, PS))
    assert node.table() == parse_ps(PS)
    assert MacSystem(Commands(0, "0A1B-2C3D\n")).boot() == "0A1B-2C3D"
    assert MacSystem(Commands(0, LISTENING)).listeners() == parse_listeners(LISTENING)
    run = Commands(0, ESTABLISHED)
    assert MacSystem(run).connections(iter([4711, 9])) == {4711: parse_lsof(ESTABLISHED)[4711], 9: []}
    assert "4711,9" in run.asked[0]
    idle = Commands()
    assert MacSystem(idle).connections([]) == {}
    assert idle.asked == []


class TestRecorded:
    """The parsers on recordings of real Macs, read where they are."""

    def test_recorded_lsof(self, sample: Callable[[str], str]) -> None:
        found = parse_listeners(sample("lsof_-F/pcLfPn_macos12_EXCERPT.txt"))
        assert {(one.command, one.port) for one in found if one.command == "ControlCenter"} == {
            ("ControlCenter", 5000),
            ("ControlCenter", 7000),
        }
        assert all(one.address == "0.0.0.0" and one.pid and one.port for one in found)

    def test_recorded_vm_stat(self, sample: Callable[[str], str]) -> None:
        text = sample("vm_stat/m1pro-mbp_macos14.4.1.txt")
        pages = next(line for line in text.splitlines() if "wired" in line).split()[-1].rstrip(".")
        assert parse_wired(text) == int(pages) * 16384

    def test_recorded_bootsessionuuid(self, sample: Callable[[str], str]) -> None:
        text = sample("sysctl/opt-n_kern.bootsessionuuid.txt")
        assert MacSystem(Commands(0, text)).boot() == text.strip()

    def test_recorded_unknown_oid(self, sample: Callable[[str], str]) -> None:
        text = sample("sysctl/unknown-oid_stderr_exit1_FROM-SOURCE.txt")
        with pytest.raises(MusterError, match="unknown oid"):
            MacSystem(Commands(1, "", text)).boot()

    def test_recorded_lstart_and_command_fit_behind_our_other_columns(self, sample: Callable[[str], str]) -> None:
        """No recording has exactly our columns; the last two, the difficult ones, come from one."""
        line = sample("ps/opt-o_pid,ppid,lstart,command_-p_macos26.txt").splitlines()[1]
        pid, ppid, rest = line.split(maxsplit=2)
        one = parse_ps(f"{pid} {ppid} {pid}   501 S+    1024 {rest}\n")[int(pid)]
        assert rest == f"{one.start}     {one.command}"

    def test_recorded_commands_come_through_whole(self, sample: Callable[[str], str]) -> None:
        lines = [line.split(maxsplit=7) for line in sample("ps/opt-ef_osx10.14.6.txt").splitlines()[1:]]
        text = "".join(
            f"{pid} {ppid} {pid} {uid} Ss 1024 Sat Nov 28 07:00:01 2026     {command}\n"
            for uid, pid, ppid, _c, _stime, _tty, _time, command in lines
        )
        assert {pid: one.command for pid, one in parse_ps(text).items()} == {int(line[1]): line[7] for line in lines}
