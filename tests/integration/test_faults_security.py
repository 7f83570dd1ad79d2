"""The fault matrix, security: what others can write is narrowed or refused, no symlink is followed, no name leaves."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

STATE = "/root/.muster"
ELSEWHERE = "/var/tmp/elsewhere"
MLX = 1501


@pytest.fixture
def host(fabric: Fabric, nothing_left: None) -> Iterator[Host]:
    """The host of these tests; afterwards nothing is outside of its state directory."""
    yield fabric["h2"]
    fabric["h2"].run(f"rm -rf {ELSEWHERE} /home/mlx/open")


@pytest.fixture
def one(playbooks: Playbooks) -> Path:
    """One host, as root."""
    return playbooks.inventory({"h2": {}})


def launch(playbooks: Playbooks, inventory: Path, **variables: str) -> Outcome:
    """Launch a program that joins no ring."""
    program = [str(PROGRAMS / "tidy.py")]
    return playbooks.launch(program=program, mlx_ready="process", inventory=inventory, **variables)


def wide(host: Host) -> list[str]:
    """What of the state directory somebody else may read or write, but for what a program made in `work/`."""
    root = _nodes.inside(host, STATE)
    paths = [root, *(path for path in root.rglob("*") if "work" not in path.parts)]
    return [f"{path} {stat.filemode(path.lstat().st_mode)}" for path in paths if path.lstat().st_mode & 0o077]


def test_a_state_directory_that_is_open_to_all_is_narrowed(playbooks: Playbooks, host: Host, one: Path) -> None:
    """0777 before a launch, and again before a teardown: 0700 afterwards, everything below 0700 or 0600."""
    host.run(f"mkdir -m 777 {STATE} {STATE}/runs {STATE}/locks")
    launch(playbooks, one).ok()
    assert wide(host) == []
    host.run(f"chmod 777 {STATE} {STATE}/runs {STATE}/locks")
    torn = playbooks.teardown(inventory=one).ok()
    assert torn.receipts["h2"]["verdict"] == "clean"
    assert [path for path in wide(host) if "/.muster/runs " not in path] == [], "runs is narrowed by the next launch"


@pytest.mark.parametrize("folder", [".", "runs", "runs/main"])
def test_a_symlink_in_place_of_a_folder_is_refused(playbooks: Playbooks, host: Host, one: Path, folder: str) -> None:
    """The launch names it and starts nothing, and nothing is written where it leads."""
    host.run(f"mkdir -p -m 700 {ELSEWHERE}")
    link = os.path.normpath(f"{STATE}/{folder}")
    host.run(f"mkdir -p -m 700 {os.path.dirname(link)} && ln -s {ELSEWHERE} {link}")
    launch(playbooks, one).failed("h2", link, "symlink")
    assert _nodes.ranks(host) == []
    assert host.files(f"{ELSEWHERE}/*") == []
    host.run(["unlink", link])
    host.run(["rm", "-rf", STATE])


@pytest.mark.parametrize("what", ["run", "instance", "rank"])
def test_a_folder_that_was_moved_behind_a_symlink(playbooks: Playbooks, host: Host, one: Path, what: str) -> None:
    """A teardown does not follow: no file there is removed, it does not say clean; with the folder back it finishes."""
    launched = launch(playbooks, one).ok()
    (pid,) = launched.pids["h2"].values()
    folder = f"{STATE}/runs/main"
    folder += {"run": "", "instance": "/2*", "rank": "/2*/rank-0"}[what]
    folder = _nodes.only(host, folder)
    host.run(f"mv {folder} {ELSEWHERE} && ln -s {ELSEWHERE} {folder}")
    before = _nodes.files_below(_nodes.inside(host, ELSEWHERE))
    torn = playbooks.teardown(inventory=one)
    after = _nodes.files_below(_nodes.inside(host, ELSEWHERE))
    alive = [rank.pid for rank in _nodes.ranks(host)]
    host.run(f"unlink {folder} && mv {ELSEWHERE} {folder}")
    again = playbooks.teardown(inventory=one)
    _nodes.sweep(playbooks.fabric)
    torn.failed("h2", "symlink")
    assert after == before
    assert alive == [pid], "nobody may be signalled for a record that a symlink led to"
    assert again.ok().receipts["h2"]["verdict"] == "clean"


def test_a_record_of_another_user_is_not_believed(playbooks: Playbooks, host: Host, one: Path) -> None:
    """Named with its owner, nobody signalled, the file left; once it is this user's again, the rank is stood down."""
    before = launch(playbooks, one).ok().pids
    record = _nodes.only(host, f"{STATE}/runs/main/*/rank-0/record.json")
    os.chown(_nodes.inside(host, record), MLX, MLX)
    torn = playbooks.teardown(inventory=one)
    torn.failed("h2", record, f"belongs to user id {MLX}", "nothing was signalled for it")
    assert torn.receipts["h2"]["ranks"] == []
    assert [rank.pid for rank in _nodes.ranks(host)] == list(before["h2"].values())
    os.chown(_nodes.inside(host, record), 0, 0)
    again = playbooks.teardown(inventory=one).ok()
    assert [rank["signals"][0][0] for rank in again.receipts["h2"]["ranks"]] == ["SIGTERM"]


@pytest.mark.parametrize("playbook", ["launch", "status", "teardown"])
def test_a_name_that_leaves_the_state_directory(playbooks: Playbooks, host: Host, one: Path, playbook: str) -> None:
    """`../x` is refused in words, and no file is made, changed or removed anywhere."""
    host.run(f"umask 077; mkdir -p {STATE}/runs {STATE}/x/20261130T204500Z-0a1b2c3d/rank-0")
    host.run(f"umask 077; echo '{{}}' > {STATE}/x/20261130T204500Z-0a1b2c3d/rank-0/record.json")
    before = _nodes.listing(host)
    program = {"program": [str(PROGRAMS / "tidy.py")]} if playbook == "launch" else {}
    outcome = playbooks.run(playbook, inventory=one, mlx_run="../x", **program)
    after = _nodes.listing(host)
    host.run(["rm", "-rf", STATE])
    outcome.failed("../x", "Choose another mlx_run")
    assert after == before
    assert _nodes.ranks(host) == []


def test_a_name_that_leaves_the_receipts(playbooks: Playbooks, host: Host, one: Path) -> None:
    """Nor is anything written outside of the controller's folder of receipts."""
    playbooks.teardown(inventory=one, mlx_run="../x").failed("../x")
    outside = playbooks.folder / "x"
    assert not outside.exists(), list(outside.iterdir())


def test_a_state_directory_that_another_user_can_replace(playbooks: Playbooks, host: Host, one: Path) -> None:
    """Its parent is another user's, who can put another one, with another supervisor.py, in its place: refused."""
    host.run("mkdir -p /home/mlx/open && chown mlx:mlx /home/mlx/open && chmod 777 /home/mlx/open")
    outcome = launch(playbooks, one, mlx_state_dir="/home/mlx/open/state")
    if outcome.rc == 0:
        playbooks.teardown(inventory=one, mlx_state_dir="/home/mlx/open/state").ok()
    outcome.failed("h2", "/home/mlx/open")
    assert _nodes.ranks(host) == []
