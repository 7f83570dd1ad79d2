"""What the supervisor hands to its rank: words, environment, descriptors, signals; and what it keeps to itself."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.unit.make import INSTANCE, RUN, eventually, gone, needs_linux
from tests.unit.supervised import Supervise

pytestmark = needs_linux

PYTHON = (sys.executable, "-I", "-S", "-c")
ODD = ["a b", "", "two\nlines", "🎺", "größe", "\udcff\udc80", "$HOME `x` 'y' \"z\"", "\\", "-n", "*"]


def raw(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


def test_arguments_arrive_byte_by_byte(supervise: Supervise) -> None:
    one = supervise("/bin/sh", "-c", "printf '%s\\0' \"$@\"", "sh")
    one.job["record"]["argv"] += ODD
    one.go().exit()
    assert one.log() == b"".join(raw(word) + b"\0" for word in ODD)


def test_the_environment_is_that_of_the_job_and_nothing_else(supervise: Supervise) -> None:
    one = supervise("/usr/bin/env", "-0", environment={f"X{number}": word for number, word in enumerate(ODD)})
    one.go().exit()
    wanted = one.job["environment"]
    assert sorted(one.log().split(b"\0")[:-1]) == sorted(raw(f"{name}={value}") for name, value in wanted.items())
    assert wanted["MUSTER_RANK"] == f"{RUN}/{INSTANCE}/0"
    assert (wanted["MLX_RANK"], wanted["MLX_HOSTFILE"]) == ("0", str(one.coordination))


@pytest.mark.parametrize(
    ("where", "word"),
    [
        pytest.param("argv", "a\0b", id="NUL in an argument"),
        pytest.param("environment", "a\0b", id="NUL in the environment"),
    ],
)
def test_words_that_no_program_can_get_are_reported(supervise: Supervise, where: str, word: str) -> None:
    one = supervise("/bin/true")
    if where == "argv":
        one.job["record"]["argv"].append(word)
    else:
        one.job["environment"]["X"] = word
    one.go()
    one.process.wait(30)
    assert one.exit()["unborn"]


def test_the_rank_gets_three_descriptors_and_reads_nothing(supervise: Supervise) -> None:
    show = "import os, sys; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1], sys.stdin.read() == '')"
    one = supervise(*PYTHON, show).go()
    one.exit()
    assert one.log() == b"['0', '1', '2'] True\n"


def test_both_outputs_are_in_the_log_in_order(supervise: Supervise) -> None:
    one = supervise("/bin/sh", "-c", "echo one; echo two >&2; echo three")
    (one.folder / "log").write_bytes(b"before\n")
    one.go().exit()
    assert one.log() == b"before\none\ntwo\nthree\n"


def test_signals_are_as_a_program_expects_them(supervise: Supervise) -> None:
    one = supervise("/bin/cat", "/proc/self/status").go()
    one.exit()
    status = dict(line.split(":", 1) for line in one.log().decode().splitlines())
    assert int(status["SigBlk"], 16) == 0
    # The C library keeps 32 and 33 to itself, and some callers start everything with these ignored.
    assert int(status["SigIgn"], 16) & 0x7FFFFFFF == 0


def test_no_log_behind_a_symlink_is_opened(supervise: Supervise, tmp_path: Path) -> None:
    one = supervise("/bin/sh", "-c", "echo out; echo ran > ran")
    (tmp_path / "target").touch()
    (one.folder / "log").unlink()
    (one.folder / "log").symlink_to(tmp_path / "target")
    end = one.go().exit()
    assert end["code"] not in (0, None)
    assert "symbolic link" in end["unborn"]
    assert ((tmp_path / "target").read_bytes(), os.listdir(one.work)) == (b"", [])


# It sleeps in short, since a signal right before a long sleep would only be seen after it.
HEEDS = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('told', flush=True) or 3))\n"
    "print('up', flush=True)\nwhile True: time.sleep(0.01)"
)


def test_sigterm_for_the_supervisor_reaches_the_rank(supervise: Supervise) -> None:
    one = supervise(*PYTHON, HEEDS).go()
    eventually(lambda: one.log() == b"up\n")
    one.process.send_signal(signal.SIGTERM)
    assert one.exit()["code"] == 3
    assert one.log() == b"up\ntold\n"


def test_sigterm_reaches_the_ranks_whole_group(supervise: Supervise) -> None:
    one = supervise("/bin/sh", "-c", "sleep 600 & echo $!; wait").go()
    child = int(eventually(one.log))
    one.process.send_signal(signal.SIGTERM)
    assert one.exit()["signal"] == signal.SIGTERM
    eventually(lambda: gone(child))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_the_end_of_a_terminal_is_no_end_of_the_supervisor(supervise: Supervise, number: int) -> None:
    one = supervise(*PYTHON, HEEDS).go()
    eventually(lambda: one.log() == b"up\n")
    one.process.send_signal(number)
    one.process.send_signal(signal.SIGTERM)
    assert one.exit()["code"] == 3


def test_it_is_alone_in_its_session_and_holds_no_descriptor_of_its_parent(supervise: Supervise) -> None:
    kept = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(kept, True)
    one = supervise("/bin/sleep", "600").go()
    one.record()
    os.close(kept)
    pid = one.process.pid
    assert os.getsid(pid) == pid
    links = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert (links[0], links[1], links[2]) == (os.devnull, os.devnull, str(one.folder / "supervisor.log"))
    assert {target for fd, target in links.items() if fd > 2 and not target.startswith("pipe:")} <= {os.devnull}


def test_secrets_are_in_the_ranks_environment_only(supervise: Supervise) -> None:
    secret = "correct-horse-battery-staple"
    one = supervise("/bin/sleep", "600", secrets={"TOKEN": secret}, environment={"PLAIN": "pla1n-value"}).go()
    pid = one.record()["pid"]
    environ = eventually(lambda: secret.encode() in Path(f"/proc/{pid}/environ").read_bytes())
    assert environ
    supervisor = Path(f"/proc/{one.process.pid}")
    seen = b"".join((supervisor / name).read_bytes() for name in ("cmdline", "environ"))
    seen += b"".join(path.read_bytes() for path in one.folder.parent.rglob("*") if path.is_file())
    seen += Path(f"/proc/{pid}/cmdline").read_bytes()
    assert INSTANCE.encode() in seen
    assert secret.encode() not in seen
    assert b"pla1n-value" not in seen


def test_all_files_are_private_whatever_the_umask(supervise: Supervise) -> None:
    before = os.umask(0)
    try:
        one = supervise("/bin/true").go()
        one.exit()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in one.folder.iterdir()}
    assert {"exit.json", "log", "record.json", "supervisor.log"} <= set(modes)
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("job", [b"", b"{", b"[]", b"{}"])
def test_a_job_that_did_not_arrive_whole_starts_nothing(supervise: Supervise, job: bytes) -> None:
    """As when the module is killed while it writes."""
    one = supervise("/bin/sh", "-c", "echo ran > ran")
    with one.process.pipe as pipe:
        pipe.write(job)
    assert one.process.wait(30) != 0
    assert os.listdir(one.work) == []
    assert one.said()
