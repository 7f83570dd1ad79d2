"""The lock between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import lock

HOLD = """
import sys
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import lock
with lock(Places(sys.argv[1]), "launch-main", 0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(places: Places) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its standard input ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, places.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_the_second_gets_an_error_that_names_the_holder(places: Places, holder: subprocess.Popen[str]) -> None:
    began = time.monotonic()
    with (
        pytest.raises(MusterError, match=rf"launch-main\.lock .*Process {holder.pid} holds it.*Wait for that launch"),
        lock(places, "launch-main", 0.1),
    ):
        pytest.fail("two hold it")
    assert 0.1 <= time.monotonic() - began < 5


def test_another_lock_is_free(places: Places, holder: subprocess.Popen[str]) -> None:
    with lock(places, "launch-other", 0), lock(places, "teardown-main", 0):
        assert holder.poll() is None


def test_it_is_free_again_when_its_holder_ends(places: Places, holder: subprocess.Popen[str]) -> None:
    holder.communicate()
    with lock(places, "launch-main", 0):
        assert holder.returncode == 0


def test_it_is_free_again_when_its_holder_is_killed(places: Places, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock(places, "launch-main", 0), open(places.lock("launch-main"), encoding="ascii") as file:
        assert file.read() == str(os.getpid())


def test_whoever_waits_gets_it_as_soon_as_it_is_free(places: Places, holder: subprocess.Popen[str]) -> None:
    waiter = subprocess.Popen(
        [sys.executable, "-c", HOLD.replace('"launch-main", 0', '"launch-main", 60'), places.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    holder.communicate()
    out, _err = waiter.communicate()
    assert (waiter.returncode, out) == (0, "held\n")


def test_it_is_free_again_after_an_error_inside(places: Places) -> None:
    with pytest.raises(ZeroDivisionError), lock(places, "x", 0):
        raise ZeroDivisionError
    with lock(places, "x", 0):
        pass


def test_a_symlink_in_its_place_is_refused(places: Places) -> None:
    with lock(places, "other", 0):
        pass
    os.symlink("target", places.lock("x"))
    with pytest.raises(OSError, match="symbolic links"), lock(places, "x", 0):
        pass
    assert not os.path.exists(places.lock("target"))


def test_a_child_that_outlives_the_module_does_not_keep_it(places: Places) -> None:
    """As the supervisor does, which is started while the lock is held."""
    with lock(places, "x", 0):
        child = subprocess.Popen(["/bin/sleep", "60"])
    try:
        with lock(places, "x", 0):
            assert child.poll() is None
    finally:
        child.kill()
        child.wait()
