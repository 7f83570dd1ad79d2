"""`mlx_files`: the same files on every node, which go with the run; what the program wrote stays."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Playbooks

TOOL = "#!/bin/sh\necho tool\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A program, and a folder with a sub-folder, an executable, an empty file and bytes that are no text."""
    top = tmp_path / "source"
    (top / "data/deep er").mkdir(parents=True)
    shutil.copy(PROGRAMS / "checkpoint.py", top / "train.py")
    (top / "data/tool").write_text(TOOL)
    (top / "data/tool").chmod(0o755)
    (top / "data/empty").touch()
    (top / "data/deep er/bytes").write_bytes(bytes(range(256)) * 4096)
    return top


def wanted(source: Path) -> dict[str, Any]:
    """The launch that brings them."""
    return {"program": ["train.py"], "mlx_files": [str(source / "train.py"), str(source / "data")]}


def work(host: Host) -> Path:
    """The working directory of the living instance."""
    return _nodes.inside(host, _nodes.only(host, "/root/.muster/runs/main/*/files.json")).parent / "work"


def copies(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Path → bytes, and whether it can be executed, of everything but what the ranks write."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("checkpoint-")
    }


def wrote(fabric: Fabric) -> bool:
    """Whether every rank has written its checkpoint."""
    return all(host.files("/root/.muster/runs/main/*/work/checkpoint-*") for host in fabric.hosts)


def test_same_bytes_everywhere_and_gone_after_the_teardown(playbooks: Playbooks, fabric: Fabric, source: Path) -> None:
    """Every node has the same files; the teardown removes them, and names and keeps the folder with the checkpoint."""
    playbooks.launch(**wanted(source)).ok()
    for host in fabric.hosts:
        assert copies(work(host)) == copies(source)
    _nodes.eventually(lambda: wrote(fabric), "a checkpoint of every rank")
    assert playbooks.launch(**wanted(source)).ok().changed == {host.name: 0 for host in fabric.hosts}

    works = {host.name: f"/root/.muster/runs/main/{work(host).parent.name}/work" for host in fabric.hosts}
    receipts = playbooks.teardown().ok().receipts
    for rank, host in enumerate(fabric.hosts):
        assert _nodes.files_below(_nodes.inside(host, works[host.name])) == [f"checkpoint-{rank}"]
        assert works[host.name] in receipts[host.name]["files_left"]
    status = playbooks.status().ok()
    for host in fabric.hosts:
        assert f"{works[host.name]} on {host.name}" in status.out


def test_an_altered_copy_is_noticed_at_the_next_launch(playbooks: Playbooks, fabric: Fabric, source: Path) -> None:
    """The launch fails and names node and file; mlx_replace=true starts anew with the controller's bytes."""
    first = playbooks.launch(**wanted(source)).ok()
    altered = work(fabric["h3"]) / "data/tool"
    altered.write_text(TOOL + "# altered behind Muster's back\n")
    before = _nodes.pids(fabric)
    outcome = playbooks.launch(**wanted(source)).failed("h3: ", "work/data/tool is changed", "mlx_replace=true")
    assert "h2: " not in next(one.values["msg"] for one in outcome.results if one.status == "failed")
    assert _nodes.pids(fabric) == before

    again = playbooks.launch(**wanted(source), mlx_replace=True).ok()
    assert all(again.changed.values())
    assert not {(node, *ranks.values()) for node, ranks in again.pids.items()} & {
        (node, *ranks.values()) for node, ranks in first.pids.items()
    }
    for host in fabric.hosts:
        assert copies(work(host)) == copies(source)
    playbooks.teardown().ok()


def test_new_bytes_on_the_controller_are_another_specification(
    playbooks: Playbooks, fabric: Fabric, source: Path
) -> None:
    """A program that was edited is not what runs already: the launch says which file, and changes nothing."""
    playbooks.launch(**wanted(source)).ok()
    before = _nodes.pids(fabric)
    with (source / "train.py").open("a") as file:
        file.write("# edited\n")
    playbooks.launch(**wanted(source)).failed("file train.py: changed")
    assert _nodes.pids(fabric) == before
    playbooks.teardown().ok()
