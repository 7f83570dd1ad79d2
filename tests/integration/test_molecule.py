"""`molecule test`, as somebody types it who wants to see the playbooks converge, be idempotent, and stand down."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.fabric import _registry
from tests.fabric._options import missing
from tests.fabric.plugin import clear_orphans, name_of_run
from tests.integration._playbooks import CHECKOUT, COMMANDS, FOREIGN

# Molecule's own account of a scenario that is not there any more, see its Scenario.prune().
MOLECULES_OWN = {"ansible.cfg", "inventory/ansible_inventory.yml", "state.yml"}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def processes_with(word: str) -> list[str]:
    """Processes of this machine that have the word in their command line or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(process / name).read_bytes() for name in ("cmdline", "environ")]
        except OSError:  # it has just ended
            continue
        if any(word.encode() in text for text in texts):
            found.append(f"{process.name}: {texts[0].decode(errors='replace')}")
    return found


def test_the_default_scenario(tmp_path: Path) -> None:
    """It converges, a second time without a change, is verified, stands down, and leaves no fabric, process or file."""
    if reason := missing():
        pytest.skip(reason)
    clear_orphans()
    fabric, own, home = name_of_run("-molecule"), tmp_path / "molecule", tmp_path / "home"
    home.mkdir()
    before = files(CHECKOUT / "molecule")
    plain = {name: value for name, value in os.environ.items() if not name.startswith((*FOREIGN, "MOLECULE_"))}
    env = plain | {
        "PATH": f"{COMMANDS}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(own),
        "MUSTER_FABRIC": fabric,
        "NO_COLOR": "1",
    }
    ended = subprocess.run(
        ["molecule", "test"],
        cwd=CHECKOUT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    steps = re.findall(r"^default . (\w+): Executed: (\w+)", said.partition("\nDETAILS")[2], re.MULTILINE)
    wanted = ["destroy", "create", "converge", "idempotence", "verify", "side_effect", "destroy"]
    assert steps == [(step, "Successful") for step in wanted], said

    assert _registry.find(fabric) is None
    assert processes_with(fabric) == []
    assert files(own) == MOLECULES_OWN
    assert files(home) == set()
    assert files(CHECKOUT / "molecule") == before
