"""macOS, what foreign ranks need: the output of `ps -E`, `lsof` and `getconf` as tables.

The fixtures are written after the formats that adv_cmds `ps` and `lsof -F` print, with values of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._macos import (
    ENVIRONMENT,
    MacSystem,
    parse_age,
    parse_environments,
    parse_names,
)
from ansible_collections.muster.mlx.plugins.module_utils._process import Process
from ansible_collections.muster.mlx.plugins.module_utils._temporary import _MKTEMP

from tests.unit.make import process

PYTHON = "/opt/homebrew/bin/python3 train.py"


class Commands:
    """Answers every command with the same, and remembers what was asked."""

    def __init__(self, code: int = 0, out: str = "", err: str = "") -> None:
        self.answer = (code, out, err)
        self.asked: list[list[str]] = []

    def __call__(self, argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
        assert environment == ENVIRONMENT
        assert argv[0].startswith("/")
        self.asked.append(argv)
        return self.answer


def table(*processes: Process) -> Mapping[int, Process]:
    return {one.pid: one for one in processes}


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        pytest.param(f"{PYTHON} HOME=/Users/me MLX_RANK=2", {"MLX_RANK": "2"}, id="rank"),
        pytest.param(
            f"{PYTHON} MLX_HOSTFILE=/var/folders/7k/x/T/tmp.8WxMneFEBG MLX_RANK=0 PATH=/bin",
            {"MLX_RANK": "0", "MLX_HOSTFILE": "/var/folders/7k/x/T/tmp.8WxMneFEBG"},
            id="rank of a ring",
        ),
        pytest.param(f"{PYTHON} HOME=/Users/me", {}, id="no rank"),
        pytest.param(PYTHON, None, id="hidden"),
        pytest.param(
            f"{PYTHON} SSH_CONNECTION=198.51.100.9 51234 198.51.100.1 22 SSH_TTY=/dev/ttys001",
            {"SSH_CONNECTION": "198.51.100.9 51234 198.51.100.1 22"},
            id="value with spaces",
        ),
        pytest.param(f"{PYTHON} HOME=/ NOT_MLX_RANK=3 MLX_RANKS=4", {}, id="names that are alike"),
        pytest.param("/bin/zsh -c x MLX_RANK=2", None, id="has become another program"),
    ],
)
def test_parse_environments(rest: str, found: dict[str, str] | None) -> None:
    seen = parse_environments(f"    1 /sbin/launchd\n 4711 {rest}\n", table(process(4711, command=PYTHON)))
    assert seen == ({} if found is None else {4711: found})


@pytest.mark.parametrize("command", ["grep MLX_RANK=2", "env MLX_RANK=2 MLX_HOSTFILE=/x python3 a.py", "vi MLX_RANK=2"])
def test_words_of_the_command_are_no_environment(command: str) -> None:
    one = table(process(4711, command=command))
    assert parse_environments(f" 4711 {command}\n", one) == {}
    assert parse_environments(f" 4711 {command} HOME=/Users/me\n", one) == {4711: {}}
    assert parse_environments(f" 4711 {command} MLX_RANK=5\n", one) == {4711: {"MLX_RANK": "5"}}


def test_another_users_environment_does_not_count() -> None:
    one = table(process(4711, uid=os.geteuid() + 1, command="python3"))
    assert parse_environments(" 4711 python3 MLX_RANK=0\n", one) == {}


@pytest.mark.parametrize("text", ["", "\n", "garbage\n", "x y z\n", " 99 python3 MLX_RANK=0\n"])
def test_other_lines_do_not_count(text: str) -> None:
    assert parse_environments(text, table(process(4711))) == {}


@pytest.mark.parametrize(
    ("start", "age"),
    [
        ("Mon Nov 30 20:45:09 2026", 60.0),
        ("Mon Nov 30 20:46:09 2026", 0.0),
        ("Sun Nov 29 20:46:09 2026", 86400.0),
        ("Wed Sep  2 04:37:35 2026", 7747714.0),
        ("5000", None),
        ("", None),
    ],
)
def test_parse_age(start: str, age: float | None) -> None:
    assert parse_age(start, 1796071569.0) == age


OPEN = """\
p4711
f3
n/private/tmp/tmp.8WxMneFEBG
f4
n/private/tmp/with a space
p4800
fcwd
n/private/tmp/tmp.8WxMneFEBG
"""


def test_open_files() -> None:
    assert parse_names(OPEN) == {
        4711: ["/private/tmp/tmp.8WxMneFEBG", "/private/tmp/with a space"],
        4800: ["/private/tmp/tmp.8WxMneFEBG"],
    }
    run = Commands(1, OPEN)
    found = MacSystem(run).open_files(["/private/tmp/tmp.8WxMneFEBG", "/private/tmp/closed"])
    assert found["/private/tmp/tmp.8WxMneFEBG"] == [4711, 4800]
    assert run.asked[0][-3:] == ["--", "/private/tmp/closed", "/private/tmp/tmp.8WxMneFEBG"]
    assert MacSystem(Commands(1)).open_files(["/x"]) == {}


def test_many_files_are_asked_for_in_parts() -> None:
    run = Commands(1)
    MacSystem(run).open_files(f"/tmp/{number}" for number in range(450))
    assert [len(argv) - argv.index("--") - 1 for argv in run.asked] == [200, 200, 50]
    idle = Commands()
    assert MacSystem(idle).open_files([]) == {}
    assert idle.asked == []


def test_lsof_that_fails_is_no_empty_answer() -> None:
    with pytest.raises(MusterError, match="lsof"):
        MacSystem(Commands(1, "", "lsof: can't get kernel's process table")).open_files(["/x"])


def test_endpoints() -> None:
    text = "p4711\nf3\nn198.51.100.9:51234->198.51.100.1:22\np4800\nf3\nn*:22\n"
    assert MacSystem(Commands(0, text)).endpoints([4711, 4800, 9]) == {4711: ["198.51.100.9:51234"], 4800: [], 9: []}
    idle = Commands()
    assert MacSystem(idle).endpoints([]) == {}
    assert idle.asked == []


def test_arguments() -> None:
    text = " 4711  4710  4711   501 S+  1024 Mon Nov 30 20:45:09 2026     python3 /opt/bin/mlx.launch -n 2\n"
    run = Commands(1, text)
    assert MacSystem(run).arguments([4711, 9]) == {4711: ["python3", "/opt/bin/mlx.launch", "-n", "2"], 9: []}
    assert "4711,9" in run.asked[0]
    idle = Commands()
    assert MacSystem(idle).arguments([]) == {}
    assert idle.asked == []


class TestRecorded:
    """Recordings of real Macs, read where they are."""

    @pytest.mark.parametrize("who", ["user", "root"])
    def test_recorded_getconf(self, sample: Callable[[str], str], who: str) -> None:
        (path,) = MacSystem(Commands(0, sample(f"getconf/DARWIN_USER_TEMP_DIR_{who}.txt"))).temporary()
        assert path.startswith("/var/folders/")
        assert path.endswith("/T/")

    def test_recorded_getconf_that_knows_no_such_name(self, sample: Callable[[str], str]) -> None:
        with pytest.raises(MusterError, match="no such configuration parameter"):
            MacSystem(Commands(64, "", sample("getconf/unknown_stderr_exit64_FROM-SOURCE.txt"))).temporary()

    @pytest.mark.parametrize("name", ["root_macos13", "root_macos14-26", "user_macos14-26_CONSTRUCTED"])
    def test_recorded_mktemp_names_are_known(self, sample: Callable[[str], str], name: str) -> None:
        assert _MKTEMP.match(os.path.basename(sample(f"mktemp/no-args_{name}.txt").strip()))
