"""The supervisor as a real process: nothing runs without its record, and how it ended is written down."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._fence import raise_fence
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._run import BEGAN, Exit, Places, Record
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import read_exit, read_record

from tests.unit.make import INSTANCE, RUN, eventually, gone, needs_linux
from tests.unit.supervised import Supervise, Supervised

pytestmark = needs_linux

NODE = LinuxSystem()
PYTHON = (sys.executable, "-I", "-S", "-c")
MARKED = "echo ran > ran"  # a program that leaves something in its working directory
SLEEP = ("/bin/sleep", "600")


def closed_gate(one: Supervised) -> Supervised:
    """Send the job with a FIFO for a fence, so that the supervisor stops right before it opens the gate."""
    one.fence.parent.mkdir(mode=0o700)
    os.mkfifo(one.fence, 0o600)
    return one.go()


def open_gate(one: Supervised, token: str = "") -> None:
    """Write the fence that the supervisor waits for."""
    with open(one.fence, "w", encoding="utf-8") as fence:
        json.dump({"token": token}, fence)


class TestBirth:
    """The record is complete before the program runs."""

    def test_the_record_names_the_waiting_process_before_the_program_runs(
        self, supervise: Supervise, places: Places
    ) -> None:
        one = closed_gate(supervise("/bin/sh", "-c", MARKED))
        born = one.record()
        rank = NODE.process(born["pid"])
        assert rank is not None
        assert (rank.start, rank.pgid, rank.ppid) == (born["start"], born["pgid"], born["supervisor_pid"])
        assert rank.pgid == rank.pid
        assert one.process.pid == born["supervisor_pid"]
        supervisor = NODE.process(one.process.pid)
        assert supervisor is not None
        assert supervisor.start == born["supervisor_start"]
        assert NODE.boot() == born["boot"]
        assert isinstance(read_record(places, RUN, INSTANCE, 0), Record)
        assert os.listdir(one.work) == []
        assert not (one.folder / BEGAN).exists()
        open_gate(one)
        assert one.exit()["code"] == 0
        assert (one.folder / BEGAN).exists()
        assert os.listdir(one.work) == ["ran"]

    def test_the_rank_finds_itself_in_its_record(self, supervise: Supervise) -> None:
        show = (
            "import json, os, sys; record = json.load(open(sys.argv[1]))\n"
            "print(json.dumps([record['pid'], record['pgid'], record['start'], os.getpid(), os.getpgrp(), os.getsid(0),"
            " open('/proc/self/stat').read().rpartition(')')[2].split()[19], os.getcwd()]))"
        )
        one = supervise(*PYTHON, show, "-")
        one.job["record"]["argv"][-1] = one.job["record_path"]
        one.go().exit()
        pid, pgid, start, own, group, session, really, cwd = json.loads(one.log())
        assert (pid, pgid, start) == (own, group, really)
        assert (session, cwd) == (one.process.pid, str(one.work))

    def test_all_else_of_the_record_is_as_intended(self, supervise: Supervise) -> None:
        one = supervise("/bin/true", environment={"A": "1"}, secrets={"S": "2"}, files={"a": "b"}).go()
        one.exit()
        born = {"pid", "pgid", "start", "supervisor_pid", "supervisor_start", "born"}
        record = one.record()
        before = json.loads(json.dumps(one.intended.to_json()))
        assert {name for name in record if record[name] != before[name]} == born

    def test_killed_before_the_gate_opens_it_leaves_no_rank(self, supervise: Supervise) -> None:
        one = closed_gate(supervise("/bin/sh", "-c", MARKED))
        pid = one.record()["pid"]
        one.process.kill()
        one.process.wait()
        eventually(lambda: gone(pid))
        assert os.listdir(one.work) == []
        assert one.log() == b""

    def test_killed_afterwards_it_leaves_a_rank_that_its_record_finds(self, supervise: Supervise) -> None:
        one = supervise(*PYTHON, "import time; print('up', flush=True); time.sleep(600)").go()
        eventually(lambda: one.log() == b"up\n")
        born = one.record()
        one.process.kill()
        one.process.wait()
        rank = NODE.process(born["pid"])
        assert rank is not None
        assert (rank.alive, rank.start) == (True, born["start"])
        assert NODE.markers({rank.pid: rank}) == {rank.pid: RUN + f"/{INSTANCE}/0"}
        assert not (one.folder / "exit.json").exists()

    def test_a_rank_that_is_killed_at_the_gate_is_reported_and_does_not_run(self, supervise: Supervise) -> None:
        one = closed_gate(supervise("/bin/sh", "-c", MARKED))
        pid = one.record()["pid"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: gone(pid))
        open_gate(one)
        assert (one.exit()["signal"], one.exit()["code"]) == (signal.SIGKILL, None)
        assert os.listdir(one.work) == []


class TestFence:
    """A teardown that came after the launch."""

    def test_a_newer_fence_keeps_the_program_from_running_and_removes_the_record(
        self, supervise: Supervise, places: Places
    ) -> None:
        one = supervise("/bin/sh", "-c", MARKED)
        raise_fence(places, RUN, 2000.0, 2000.0)
        end = one.go().exit()
        assert "teardown passed" in end["unborn"]
        assert read_record(places, RUN, INSTANCE, 0) is None
        assert (os.listdir(one.work), one.coordination.exists(), one.log()) == ([], False, b"")

    def test_a_teardown_while_the_rank_waits_wins(self, supervise: Supervise, places: Places) -> None:
        one = closed_gate(supervise("/bin/sh", "-c", MARKED))
        pid = one.record()["pid"]
        open_gate(one, "newer")
        assert "teardown passed" in one.exit()["unborn"]
        assert gone(pid)
        assert (os.listdir(one.work), read_record(places, RUN, INSTANCE, 0)) == ([], None)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "\udcff"])
    def test_a_fence_that_cannot_be_read_lets_nobody_pass(self, supervise: Supervise, text: str) -> None:
        one = supervise("/bin/sh", "-c", MARKED)
        one.fence.parent.mkdir(mode=0o700)
        one.fence.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert one.go().exit()["unborn"]
        assert os.listdir(one.work) == []

    def test_a_fence_that_is_a_directory_lets_nobody_pass(self, supervise: Supervise) -> None:
        one = supervise("/bin/sh", "-c", MARKED)
        one.fence.mkdir(parents=True)
        assert one.go().exit()["unborn"]
        assert os.listdir(one.work) == []

    def test_the_fence_that_the_launch_saw_lets_it_pass(self, supervise: Supervise, places: Places) -> None:
        one = supervise("/bin/sh", "-c", MARKED)
        one.job["record"]["fence"] = raise_fence(places, RUN, 1.0, 1.0).token
        assert one.go().exit() | {"time": 0} == {"code": 0, "signal": None, "time": 0, "unborn": ""}
        assert os.listdir(one.work) == ["ran"]


class TestEnd:
    """How a rank ended is in exit.json, and its coordination file is gone."""

    @pytest.mark.parametrize("code", [0, 1, 7, 125, 127, 255])
    def test_an_exit_code(self, supervise: Supervise, places: Places, code: int) -> None:
        one = supervise("/bin/sh", "-c", f"exit {code}")
        assert one.coordination.exists()
        one.go().exit()
        found = read_exit(places, one.intended)
        assert found is not None
        assert (found.code, found.signal, found.unborn) == (code, None, "")
        assert not one.coordination.exists()
        assert isinstance(read_record(places, RUN, INSTANCE, 0), Record)
        assert one.said() == ""

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGRTMAX])
    def test_a_signal(self, supervise: Supervise, places: Places, number: int) -> None:
        one = supervise("/bin/sh", "-c", f"kill -{int(number)} $$").go()
        one.exit()
        assert read_exit(places, one.intended) == Exit(None, number, one.exit()["time"])
        assert not one.coordination.exists()

    @pytest.mark.parametrize(
        ("argv", "changes", "words"),
        [
            (("/no/such/program",), {}, "/no/such/program in .*/work: No such file or directory"),
            (("no-such-program",), {}, "no-such-program"),
            (("/etc/passwd",), {}, "Permission denied"),
            (("/",), {}, "Permission denied"),
            (("/bin/true",), {"cwd": "/no/such/folder"}, "in /no/such/folder: No such file or directory"),
            (("/bin/true", "x" * 4_000_000), {}, "Argument list too long"),
        ],
        ids=["missing", "not on the path", "no program", "directory", "no working directory", "too many words"],
    )
    def test_a_program_that_cannot_run(
        self, supervise: Supervise, places: Places, argv: tuple[str, ...], changes: dict[str, Any], words: str
    ) -> None:
        one = supervise(*argv, **changes).go()
        end = one.exit()
        assert end["code"] == 127
        assert not (one.folder / BEGAN).exists()
        assert re.search(words, end["unborn"])
        assert not one.coordination.exists()
        assert one.said() == ""

    def test_a_teardown_that_removed_the_folder_meanwhile_is_no_fault(self, supervise: Supervise) -> None:
        one = supervise(*SLEEP).go()
        pid = one.record()["pid"]
        one.folder.rename(one.folder.with_name("away"))
        os.kill(pid, signal.SIGKILL)
        assert one.process.wait(30) == 0
        one.folder.with_name("away").rename(one.folder)
        assert one.said() == ""
        assert not (one.folder / "exit.json").exists()
