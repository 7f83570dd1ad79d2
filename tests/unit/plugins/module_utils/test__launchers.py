"""Whether the launcher of a rank lives: from its ancestors, and from who holds the other end of its ssh session."""

from __future__ import annotations

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._launchers import (
    Launcher,
    ancestors,
    is_exo,
    is_mlx_launch,
    launcher_of,
    ssh_clients,
    with_clients,
)
from ansible_collections.muster.mlx.plugins.module_utils._process import Process

from tests.unit.foreign_node import ME, ForeignNode
from tests.unit.make import process

CONNECTION = "198.51.100.9 51234 198.51.100.1 22"
SCRIPT = 'stty -echo; pidfile=$(mktemp); echo $$ > $pidfile; printf "%s\\n" $pidfile; exec "${cmd[@]}"'
SSH = ["ssh", "-tt", "-o", "LogLevel=QUIET", "mac1", SCRIPT]
MLX_LAUNCH = ["/opt/venv/bin/python", "/opt/venv/bin/mlx.launch", "--hostfile", "hosts.json", "train.py"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (MLX_LAUNCH, True),
        (["mlx.launch", "train.py"], True),
        (["python3", "-m", "mlx._distributed_utils.launch", "x"], True),
        (["uv", "run", "mlx.launch", "x"], True),
        (["python3", "train.py"], False),
        (["python3", "a", "b", "c", "d", "e", "mlx.launch"], False),
        (["vim", "mlx.launch.py"], False),
        ([], False),
    ],
)
def test_is_mlx_launch(words: list[str], found: bool) -> None:
    assert is_mlx_launch(words) is found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["exo"], True),
        (["/Users/me/exo/.venv/bin/python", "-c", "from multiprocessing.spawn import spawn_main"], True),
        (["python3", "/opt/bin/exo", "--api-port", "1"], True),
        (["python3", "-m", "exo"], True),
        (["python3", "-m", "exo.main"], True),
        (["/Applications/EXO.app/Contents/MacOS/EXO"], True),
        (["python3", "exodus.py"], False),
        (["/opt/hexo/bin/node"], False),
        ([], False),
    ],
)
def test_is_exo(words: list[str], found: bool) -> None:
    assert is_exo(words) is found


class TestAncestors:
    """The chain up to process 1, whatever the table looks like."""

    def test_nearest_first_and_without_init(self) -> None:
        table = {
            one.pid: one for one in (process(1, ppid=0), process(5, ppid=1), process(6, ppid=5), process(7, ppid=6))
        }
        assert [one.pid for one in ancestors(table[7], table)] == [6, 5]

    def test_a_users_own_init_is_none(self) -> None:
        table = {5: process(5, ppid=1, command="systemd"), 6: process(6, ppid=5)}
        assert ancestors(table[6], table) == []

    def test_a_loop_ends(self) -> None:
        table = {5: process(5, ppid=6), 6: process(6, ppid=5)}
        assert {one.pid for one in ancestors(table[5], table)} == {5, 6}

    def test_a_parent_that_the_table_lacks_ends_it(self) -> None:
        assert ancestors(process(5, ppid=99), {}) == []


def rank(ppid: int) -> Process:
    return process(100, ppid=ppid)


@pytest.mark.parametrize(
    ("parents", "ppid", "state", "words"),
    [
        pytest.param([], 1, "gone", "gone", id="adopted by init"),
        pytest.param(
            [(50, 1, "python", MLX_LAUNCH)], 50, "alive", "mlx.launch, process 50", id="mlx.launch on this machine"
        ),
        pytest.param(
            [(50, 1, "python", MLX_LAUNCH), (51, 50, "bash", ["bash", "-c", "x"])],
            51,
            "alive",
            "process 50",
            id="with a shell",
        ),
        pytest.param(
            [(50, 1, "sshd", ["sshd: me@pts/0"])], 50, "unknown", "ssh from 198.51.100.9 port 51234", id="ssh"
        ),
        pytest.param([(50, 1, "sshd-session", ["x"])], 50, "unknown", "ssh from", id="ssh since OpenSSH 9.8"),
        pytest.param([(50, 1, "sshd: me@ttys001", ["sshd:"])], 50, "unknown", "ssh from", id="ssh as macOS shows it"),
        pytest.param(
            [(40, 1, "sshd", ["x"]), (50, 40, "-zsh", ["-zsh"])],
            50,
            "alive",
            "process 50 (-zsh)",
            id="somebody's own shell",
        ),
        pytest.param([(50, 1, "tmux: server", ["tmux"])], 50, "alive", "process 50 (tmux)", id="another launcher"),
        pytest.param([(50, 1, "systemd", ["systemd", "--user"])], 50, "gone", "gone", id="adopted by the user's init"),
        pytest.param([], 0, "unknown", "not of this process namespace", id="started from outside"),
        pytest.param(
            [(1, 0, "mlx.launch", MLX_LAUNCH)], 1, "alive", "mlx.launch, process 1", id="mlx.launch is process 1"
        ),
    ],
)
def test_launcher_of(parents: list[tuple[int, int, str, list[str]]], ppid: int, state: str, words: str) -> None:
    one = rank(ppid)
    table = {100: one, **{pid: process(pid, ppid=parent, command=command) for pid, parent, command, _line in parents}}
    found = launcher_of(one, table, {pid: line for pid, _ppid, _command, line in parents}, CONNECTION)
    assert found.state == state
    assert words in found.words
    assert found.endpoint == ("198.51.100.9:51234" if "ssh" in words else "")


@pytest.mark.parametrize("connection", ["", "x", "198.51.100.9", "198.51.100.9 x y z"])
def test_a_connection_that_nobody_can_read(connection: str) -> None:
    one = rank(50)
    found = launcher_of(one, {50: process(50, command="sshd")}, {}, connection)
    assert (found.state, found.endpoint) == ("unknown", "")


def test_an_ipv6_connection() -> None:
    found = launcher_of(rank(50), {50: process(50, command="sshd")}, {}, "fd00::9 51234 fd00::1 22")
    assert found.endpoint == "fd00::9:51234"


@pytest.mark.parametrize(
    ("launcher", "clients", "state"),
    [
        (Launcher("unknown", "ssh", "a:1"), {"a:1": "gone"}, "gone"),
        (Launcher("unknown", "ssh", "a:1"), {"a:1": "alive"}, "alive"),
        (Launcher("unknown", "ssh", "a:1"), {"a:2": "gone"}, "unknown"),
        (Launcher("unknown", "ssh", "a:1"), {}, "unknown"),
        (Launcher("unknown", "ssh", ""), {"a:1": "gone"}, "unknown"),
        (Launcher("alive", "x", "a:1"), {"a:1": "gone"}, "alive"),
        (Launcher("gone", "gone", ""), {"": "alive"}, "gone"),
    ],
)
def test_with_clients(launcher: Launcher, clients: dict[str, str], state: str) -> None:
    assert with_clients(launcher, clients).state == state


class TestSshClients:
    """What a machine says of the ssh clients on it."""

    @pytest.mark.parametrize(
        ("parents", "ppid", "words", "state"),
        [
            pytest.param([(50, 1, MLX_LAUNCH)], 50, SSH, "alive", id="mlx.launch lives"),
            pytest.param([], 1, SSH, "gone", id="mlx.launch was killed"),
            pytest.param([(51, 1, ["bash", "-c", f"ssh mac1 '{SCRIPT}'"])], 51, SSH, "gone", id="and left its shell"),
            pytest.param(
                [(50, 1, MLX_LAUNCH), (51, 50, ["bash", "-c", SCRIPT])],
                51,
                SSH,
                "alive",
                id="mlx.launch lives, and its shell",
            ),
            pytest.param([(50, 1, ["zsh"])], 50, ["ssh", "mac1"], "alive", id="a person at a shell"),
            pytest.param(
                [(50, 1, ["python3", "own.py"])], 50, SSH, "alive", id="another launcher with the same script"
            ),
            pytest.param([], 1, ["ssh", "mac1"], None, id="orphan that is not mlx.launch's"),
            pytest.param([], 1, ["ssh:", "/tmp/control", "[mux]"], None, id="shared connection"),
            pytest.param([(1, 0, MLX_LAUNCH)], 1, SSH, "alive", id="mlx.launch is process 1"),
        ],
    )
    def test_states(
        self, parents: list[tuple[int, int, list[str]]], ppid: int, words: list[str], state: str | None
    ) -> None:
        node = ForeignNode()
        for pid, parent, line in parents:
            node.plain(pid, *line, ppid=parent)
        node.plain(60, *words, ppid=ppid, command="ssh")
        node.ends[60] = ["198.51.100.9:51234"]
        assert ssh_clients(node, node.table(), ME) == ({"198.51.100.9:51234": state} if state else {})

    def test_other_users_and_other_programs_do_not_count(self) -> None:
        node = ForeignNode()
        node.plain(60, *SSH, uid=ME + 1, command="ssh")
        node.plain(61, *SSH, command="sshd")
        node.plain(62, "python3", "ssh", command="ssh-agent")
        node.ends = {pid: ["a:1"] for pid in (60, 61, 62)}
        assert ssh_clients(node, node.table(), ME) == {}
