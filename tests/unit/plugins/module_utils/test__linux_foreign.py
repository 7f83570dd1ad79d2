"""Linux, what foreign ranks need: environments, command lines, ages, open files, with real processes of this test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem, parse_environ
from ansible_collections.muster.mlx.plugins.module_utils._process import System

from tests.unit.make import eventually, needs_linux

NODE: System = LinuxSystem()


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (b"MLX_RANK=2\0MLX_HOSTFILE=/tmp/x\0", {"MLX_RANK": "2", "MLX_HOSTFILE": "/tmp/x"}),
        (b"SECRET=x\0PATH=/bin\0", {}),
        (b"MLX_RANK=\0", {"MLX_RANK": ""}),
        (b"MLX_RANK\0", {}),
        (b"X=MLX_RANK=1\0MLX_RANKS=2\0NOT_MLX_RANK=3\0", {}),
        (b"MLX_RANK=1\0MLX_RANK=2\0", {"MLX_RANK": "1"}),
        (b"SSH_CONNECTION=10.0.0.1 5 10.0.0.2 22\0", {"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}),
        (b"MLX_HOSTFILE=/\xff\0", {"MLX_HOSTFILE": "/\ufffd"}),
        (b"", {}),
    ],
)
def test_parse_environ(environ: bytes, found: dict[str, str]) -> None:
    assert parse_environ(environ) == found


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a rank's environment and a file open."""
    (tmp_path / "held").touch()
    code = "import sys; file = open(sys.argv[1]); print('up', flush=True); sys.stdin.read()"
    one = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "held"), "two words"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"MLX_RANK": "7", "SECRET": "x"},
    )
    assert one.stdout is not None
    one.stdout.readline()
    yield one
    with suppress(ProcessLookupError):
        one.kill()
    one.communicate()


@needs_linux
class TestReal:
    """LinuxSystem and a child of this test."""

    def test_environment_has_the_few_names_only(self, child: subprocess.Popen[str]) -> None:
        assert NODE.environments(NODE.table())[child.pid] == {"MLX_RANK": "7"}

    def test_an_empty_environment_counts_as_one_that_cannot_be_read(self) -> None:
        """That is how a process looks while it executes: it must not look like one without a rank."""
        with subprocess.Popen(["sleep", "10"], env={}) as one:
            try:
                eventually(lambda: NODE.arguments([one.pid])[one.pid][:1] == ["sleep"])
                assert one.pid not in NODE.environments(NODE.table())
            finally:
                one.kill()

    def test_arguments_keep_their_spaces(self, child: subprocess.Popen[str]) -> None:
        words = NODE.arguments([child.pid, 2**31 - 1])
        assert words[child.pid][-1] == "two words"
        assert words[2**31 - 1] == []

    def test_age_grows_with_time(self, child: subprocess.Popen[str]) -> None:
        process = NODE.process(child.pid)
        assert process is not None
        first = NODE.age(process)
        assert first is not None and 0 <= first < 60
        time.sleep(0.05)
        later = NODE.age(process)
        assert later is not None and 0.04 < later - first < 10

    def test_open_files(self, child: subprocess.Popen[str], tmp_path: Path) -> None:
        held, other = str(tmp_path / "held"), str(tmp_path / "other")
        Path(other).touch()
        assert NODE.open_files([held, other]) == {held: [child.pid]}
        assert NODE.open_files([]) == {}
        child.kill()
        child.wait()
        assert NODE.open_files([held]) == {}

    def test_endpoints_are_this_sides(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            with closing(socket.create_connection(server.getsockname())) as client, closing(server.accept()[0]):
                mine = "{}:{}".format(*client.getsockname())
                assert mine in NODE.endpoints([os.getpid()])[os.getpid()]
            assert mine not in NODE.endpoints([os.getpid()])[os.getpid()]
        assert NODE.endpoints([2**31 - 1]) == {2**31 - 1: []}

    def test_temporary(self) -> None:
        assert NODE.temporary() == ["/tmp"]
