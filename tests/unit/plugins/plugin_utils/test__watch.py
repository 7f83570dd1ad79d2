"""The watch beside a worker, with real forks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.muster.mlx.plugins.plugin_utils._watch import Watch

from tests.unit.make import eventually, gone, in_child, needs_linux


def marks(path: Path, answers: int = 1) -> Callable[[], bool]:
    """A reaction that leaves one letter each time, and succeeds at the last answer."""

    def react() -> bool:
        with open(path, "a", encoding="ascii") as file:
            file.write("x")
        return len(path.read_text()) >= answers

    return react


def children() -> set[int]:
    """Return the pids of this process's living children."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_the_first_to_fail_leaves_its_name(tmp_path: Path) -> None:
    one, other = (Watch(str(tmp_path / "mark"), lambda: True) for _ in range(2))
    assert one.first() == other.first() == ""
    one.failed("mac1")
    other.failed("mac2")
    one.failed("mac3")
    assert one.first() == other.first() == "mac1"
    assert (tmp_path / "mark").stat().st_mode & 0o777 == 0o600


def test_of_many_that_fail_at_once_one_is_first(tmp_path: Path) -> None:
    def fail(name: str) -> bool:
        eventually((tmp_path / "go").exists)
        Watch(str(tmp_path / "mark"), lambda: True).failed(name)
        return True

    forks = []
    for number in range(8):
        if (pid := os.fork()) == 0:
            try:
                fail(f"mac{number}")
            finally:
                os._exit(0)
        forks.append(pid)
    (tmp_path / "go").touch()
    assert [os.waitpid(pid, 0)[1] for pid in forks] == [0] * 8
    assert Watch(str(tmp_path / "mark"), lambda: True).first() in {f"mac{number}" for number in range(8)}


def test_no_failure_no_reaction(tmp_path: Path) -> None:
    with Watch(str(tmp_path / "mark"), marks(tmp_path / "done")) as watch:
        assert watch.first() == ""
    assert not (tmp_path / "done").exists()


@needs_linux
def test_the_child_is_gone_after_the_block(tmp_path: Path) -> None:
    before = children()
    with Watch(str(tmp_path / "mark"), lambda: True):
        assert len(children() - before) == 1
    assert children() == before


@needs_linux
def test_the_child_is_gone_after_an_error_in_the_block(tmp_path: Path) -> None:
    before = children()
    with pytest.raises(AnsibleConnectionFailure), Watch(str(tmp_path / "mark"), lambda: True):
        raise AnsibleConnectionFailure("timed out")
    assert children() == before


@needs_linux
def test_a_failure_elsewhere_is_reacted_to_once_that_succeeds(tmp_path: Path) -> None:
    with Watch(str(tmp_path / "mark"), marks(tmp_path / "done")) as watch:
        (tmp_path / "mark").write_text("mac2")
        eventually(lambda: gone(watch._child))
    assert (tmp_path / "done").read_text() == "x"


def test_the_reaction_is_repeated_until_it_succeeds(tmp_path: Path) -> None:
    """On its node the folder may not be there yet."""
    with Watch(str(tmp_path / "mark"), marks(tmp_path / "done", answers=3)):
        (tmp_path / "mark").write_text("mac2")
        eventually(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == "xxx")


def test_the_reaction_is_repeated_after_an_error(tmp_path: Path) -> None:
    """As _low_level_execute_command raises it when the node cannot be reached for a moment."""
    react = marks(tmp_path / "done", answers=2)

    def fail_first() -> bool:
        if not react():
            raise AnsibleConnectionFailure("Connection refused")
        return True

    with Watch(str(tmp_path / "mark"), fail_first):
        (tmp_path / "mark").write_text("mac2")
        eventually(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == "xx", 1)


@needs_linux
def test_a_reaction_that_hangs_does_not_hold_the_worker(tmp_path: Path) -> None:
    def hang() -> bool:
        (tmp_path / "hangs").touch()
        time.sleep(600)
        return True

    with Watch(str(tmp_path / "mark"), hang):
        (tmp_path / "mark").write_text("mac2")
        eventually((tmp_path / "hangs").exists)
    assert (tmp_path / "hangs").exists()


@needs_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_does_not_outlive_a_worker_that_is_killed(tmp_path: Path, number: int) -> None:
    (tmp_path / "mark").write_text("mac2")

    def react() -> bool:
        (tmp_path / "pid").write_text(str(os.getpid()))
        return False

    def work() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with Watch(str(tmp_path / "mark"), react):
            eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
            os.kill(os.getpid(), number)

    assert in_child(work, 20) == -number
    eventually(lambda: gone(int((tmp_path / "pid").read_text())))


@needs_linux
def test_the_child_does_not_outlive_a_worker_that_is_killed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, worker = os.fork, os.getpid

    def slow_fork() -> int:
        parent = worker()
        if (pid := fork()) == 0:
            (tmp_path / "pid").write_text(str(worker()))
            while os.getppid() == parent:
                time.sleep(0.001)
        return pid

    def work() -> None:
        monkeypatch.setattr(os, "fork", slow_fork)
        with Watch(str(tmp_path / "mark"), lambda: True):
            eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work, 20) == -signal.SIGKILL
    child = int((tmp_path / "pid").read_text())
    try:
        eventually(lambda: gone(child), 1)
    finally:
        if not gone(child):
            os.kill(child, signal.SIGKILL)
