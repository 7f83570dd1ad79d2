"""Linux: the formats of /proc as tables, and the real system with real processes of this test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _linux
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem, parse_stat, parse_tcp
from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER, Identity, Listener, System, is_same

from tests.unit.make import eventually, gone, needs_linux

PAGE = os.sysconf("SC_PAGE_SIZE")
NODE: System = LinuxSystem()


def stat_line(command: bytes, state: bytes = b"S") -> bytes:
    """One line of /proc/<pid>/stat, proc(5): field 5 is the group, 22 the start, 24 the resident pages."""
    numbers = [b"%d" % field for field in range(4, 53)]
    return b"4711 (%s) %s %s\n" % (command, state, b" ".join(numbers))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(b"python3", id="plain"),
        pytest.param(b"a b c", id="spaces"),
        pytest.param(b"tmux: server (1)", id="parentheses"),
        pytest.param(b") R 1 1 1 (", id="looks like the fields that follow"),
        pytest.param(b"", id="empty"),
        pytest.param(b"two\nlines", id="newline"),
        pytest.param("größe".encode(), id="not ASCII"),
    ],
)
def test_parse_stat(command: bytes) -> None:
    one = parse_stat(stat_line(command), 1000)
    assert (one.pid, one.uid, one.state, one.command) == (4711, 1000, "S", command.decode())
    assert (one.ppid, one.pgid, one.start, one.rss) == (4, 5, "22", 24 * PAGE)


def test_parse_stat_takes_a_command_that_is_no_utf8() -> None:
    assert parse_stat(stat_line(b"\xff\xfe)"), 0).command == "\ufffd\ufffd)"


def hex_address(family: socket.AddressFamily, ip: str, port: int) -> str:
    """Spell an address as the kernel does: 32-bit words as this machine reads them, then the port."""
    packed = socket.inet_pton(family, ip)
    words = [int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def tcp_row(local: str, remote: str, state: str, inode: int) -> str:
    """One row of /proc/net/tcp."""
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0 100 0"


@pytest.mark.parametrize(
    ("family", "ip", "shown"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0", "0.0.0.0"),
        (socket.AF_INET, "192.0.2.254", "192.0.2.254"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "::"),
        (socket.AF_INET6, "fe80::a:b", "fe80::a:b"),
        (socket.AF_INET6, "::ffff:192.0.2.7", "192.0.2.7"),
    ],
)
def test_parse_tcp(family: socket.AddressFamily, ip: str, shown: str) -> None:
    row = tcp_row(hex_address(family, ip, 32323), hex_address(family, ip, 5), "01", 4242)
    assert list(parse_tcp(f"  sl  local_address ...\n{row}\n")) == [("01", f"{shown}:32323", f"{shown}:5", "4242")]


def test_parse_tcp_of_an_empty_table() -> None:
    assert list(parse_tcp("  sl  local_address ...\n")) == []


def test_parse_tcp_of_a_big_table() -> None:
    loopback = hex_address(socket.AF_INET, "127.0.0.1", 80)
    rows = [tcp_row(loopback, hex_address(socket.AF_INET, "10.0.0.1", n % 65536), "01", n) for n in range(20_000)]
    found = list(parse_tcp("head\n" + "\n".join(rows)))
    assert len(found) == 20_000
    assert found[-1] == ("01", "127.0.0.1:80", "10.0.0.1:19999", "19999")


@pytest.fixture
def marked() -> Iterator[subprocess.Popen[str]]:
    """A child that carries a rank's marker and says when it is there."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={MARKER: "main/instance/7"},
    )
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


@needs_linux
class TestRealProcesses:
    """LinuxSystem and what this test started."""

    def test_sees_itself_in_the_table_as_alone(self) -> None:
        me = NODE.table()[os.getpid()]
        assert (me.pid, me.ppid, me.pgid, me.uid) == (os.getpid(), os.getppid(), os.getpgrp(), os.geteuid())
        assert me.alive
        assert me.rss > 1 << 20
        alone = NODE.process(os.getpid())
        assert alone is not None
        assert (alone.start, alone.command) == (me.start, me.command)

    def test_sees_a_child_with_its_marker(self, marked: subprocess.Popen[str]) -> None:
        table = NODE.table()
        child = table[marked.pid]
        assert (child.ppid, child.pgid) == (os.getpid(), marked.pid)
        assert NODE.markers(table)[marked.pid] == "main/instance/7"
        assert os.getpid() not in NODE.markers(table)

    def test_another_users_marker_does_not_count(self, marked: subprocess.Popen[str]) -> None:
        table = NODE.table()
        foreign = {marked.pid: _linux.parse_stat(stat_line(b"x").replace(b"4711", b"%d" % marked.pid), 4242)}
        assert NODE.markers({**table, **foreign}).get(marked.pid) is None

    def test_identity_holds_until_the_end_and_not_for_a_zombie(self, marked: subprocess.Popen[str]) -> None:
        child = NODE.process(marked.pid)
        assert child is not None
        identity = Identity(child.pid, child.start, NODE.boot())
        assert is_same(identity, NODE.process(marked.pid), NODE.boot())
        assert NODE.killpg(marked.pid, signal.SIGKILL)
        eventually(lambda: gone(marked.pid))
        zombie = NODE.process(marked.pid)
        assert zombie is not None
        assert zombie.state == "Z"
        assert not is_same(identity, zombie, NODE.boot())
        assert NODE.markers({marked.pid: zombie}) == {}
        marked.wait()
        assert NODE.process(marked.pid) is None
        assert not NODE.kill(marked.pid, signal.SIGTERM)
        assert not NODE.killpg(marked.pid, signal.SIGTERM)

    def test_a_stopped_process_shows_as_such(self, marked: subprocess.Popen[str]) -> None:
        NODE.kill(marked.pid, signal.SIGSTOP)
        eventually(lambda: NODE.table()[marked.pid].state == "T")

    def test_boot_is_the_kernels_and_stays(self) -> None:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            assert NODE.boot() == file.read().strip() == NODE.boot()

    def test_a_pid_that_nobody_has(self) -> None:
        assert NODE.process(2**31 - 1) is None

    def test_there_is_no_wired_memory(self) -> None:
        assert NODE.wired() is None


@needs_linux
class TestRealSockets:
    """LinuxSystem and this test's own sockets."""

    @pytest.mark.parametrize(
        ("family", "ip"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")]
    )
    def test_sees_who_listens(self, family: socket.AddressFamily, ip: str) -> None:
        with closing(socket.socket(family)) as server:
            server.bind((ip, 0))
            server.listen()
            port = server.getsockname()[1]
            found = [one for one in NODE.listeners() if one.port == port]
            assert [(one.address, one.pid) for one in found] == [(ip, os.getpid())]
            assert found[0].command == NODE.table()[os.getpid()].command
        assert [one for one in NODE.listeners() if one.port == port] == []

    def test_sees_connections_of_the_asked_processes_only(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            port = server.getsockname()[1]
            with closing(socket.create_connection(("127.0.0.1", port))), closing(server.accept()[0]):
                held = NODE.connections([os.getpid(), os.getppid()])
                assert f"127.0.0.1:{port}" in held[os.getpid()]
                assert f"127.0.0.1:{port}" not in held[os.getppid()]
            assert f"127.0.0.1:{port}" not in NODE.connections([os.getpid()])[os.getpid()]

    def test_a_connection_over_v6_to_a_v4_address_shows_as_v4(self) -> None:
        with (
            closing(socket.create_server(("127.0.0.1", 0))) as server,
            closing(socket.socket(socket.AF_INET6)) as client,
        ):
            port = server.getsockname()[1]
            client.connect(("::ffff:127.0.0.1", port))
            assert f"127.0.0.1:{port}" in NODE.connections([os.getpid()])[os.getpid()]

    def test_a_process_that_is_gone_has_no_connections(self) -> None:
        assert NODE.connections([2**31 - 1]) == {2**31 - 1: []}

    def test_a_descriptor_that_closes_meanwhile_hides_no_other(self) -> None:
        """The listing's own descriptor is such a one, here below the server's."""
        below = os.open(os.devnull, os.O_RDONLY)
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            os.close(below)
            assert server.fileno() > below
            found = [one.pid for one in NODE.listeners() if one.port == server.getsockname()[1]]
        assert found == [os.getpid()]


def test_a_socket_of_another_users_process_has_no_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    row = tcp_row(hex_address(socket.AF_INET, "10.0.0.1", 32323), hex_address(socket.AF_INET, "0.0.0.0", 0), "0A", 1)
    monkeypatch.setattr(_linux, "_read", lambda path: f"head\n{row}\n".encode() if path.endswith("/tcp") else b"head\n")
    monkeypatch.setattr(LinuxSystem, "table", lambda self: {})
    assert LinuxSystem().listeners() == [Listener("10.0.0.1", 32323, None, "")]


def test_sockets_that_cannot_be_read_are_an_error_and_not_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(_linux, "_read", refuse)
    with pytest.raises(MusterError, match=r"Permission denied.*/proc/net/tcp"):
        LinuxSystem().listeners()
    with pytest.raises(MusterError, match="Permission denied"):
        LinuxSystem().connections([1])
