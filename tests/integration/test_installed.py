"""The collection as a user gets it: built, installed elsewhere, its playbooks called by name."""

from __future__ import annotations

from pathlib import Path

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import CHECKOUT, COMMANDS, Playbooks


def test_playbooks_by_name_from_the_built_artifact(playbooks: Playbooks, fabric: Fabric, tmp_path: Path) -> None:
    """From a folder that knows nothing of the checkout, with no ansible.cfg: launch, status, teardown, receipts."""
    galaxy = str(COMMANDS / "ansible-galaxy")
    elsewhere, collections = tmp_path / "elsewhere", tmp_path / "collections"
    elsewhere.mkdir()
    env = playbooks.environment()
    fabric.run([galaxy, "collection", "build", "--output-path", str(tmp_path)], cwd=CHECKOUT, env=env)
    (artifact,) = tmp_path.glob("muster-mlx-*.tar.gz")
    fabric.run([galaxy, "collection", "install", str(artifact), "-p", str(collections)], cwd=elsewhere, env=env)
    assert (collections / "ansible_collections/muster/mlx/playbooks/launch.yml").is_file()

    two = playbooks.inventory({"h1": {}, "h2": {}})
    away = {"cwd": elsewhere, "env": {"ANSIBLE_COLLECTIONS_PATH": str(collections)}, "inventory": two}
    launched = playbooks.run("muster.mlx.launch", **away).ok()
    assert [rank["state"] for rank in launched.ranks] == ["running"] * 2
    for node, ranks in launched.pids.items():
        assert [one.pid for one in _nodes.ranks(fabric[node])] == list(ranks.values())
    assert playbooks.run("muster.mlx.status", **away).ok().pids == launched.pids
    assert playbooks.run("muster.mlx.launch", **away).ok().changed == {"h1": 0, "h2": 0}
    torn = playbooks.run("muster.mlx.teardown", **away).ok()
    assert {receipt["verdict"] for receipt in torn.receipts.values()} == {"clean"}
    assert len(list((elsewhere / "receipts/main").glob("*/h*.json"))) == 2
    installed = (collections / "ansible_collections/muster/mlx").rglob("*")
    assert not [path for path in installed if path.name in ("tests", ".venv", "build", "receipts", "ansible.cfg")]
