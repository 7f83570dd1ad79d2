"""Which System a node is, and how AnsibleModule's way of running a command is used."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._macos import MacSystem
from ansible_collections.muster.mlx.plugins.module_utils._node import runner
from ansible_collections.muster.mlx.plugins.module_utils._system import Run, this_system
from ansible_collections.muster.mlx.plugins.plugin_utils import _bootstrap

from tests.unit.make import in_child


@pytest.fixture(params=["AnsibleModule", "bootstrap"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Both ways in which a command runs on a node."""
    if request.param == "bootstrap":
        yield _bootstrap.run_command
        return
    with patch_module_args({}):
        yield runner(AnsibleModule(argument_spec={}))


@pytest.mark.parametrize(("name", "kind"), [("Linux", LinuxSystem), ("Darwin", MacSystem)])
def test_this_system(monkeypatch: pytest.MonkeyPatch, name: str, kind: type) -> None:
    monkeypatch.setattr(platform, "system", lambda: name)
    assert isinstance(this_system(_bootstrap.run_command), kind)


@pytest.mark.parametrize("name", ["FreeBSD", "Windows", ""])
def test_a_system_that_muster_does_not_know(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: name)
    with pytest.raises(MusterError, match="macOS or Linux"):
        this_system(_bootstrap.run_command)


SHOW = "printf '%s|' \"$@\"; printf '%s' \"$X\"; pwd; echo words >&2; exit 3"


def test_an_argument_list_runs_as_it_is(run: Run, tmp_path: Path) -> None:
    words = ["$HOME", "~", "a b", "*", "", "'", "größe\n🎺"]
    code, out, err = run(["/bin/sh", "-c", SHOW, "sh", *words], {"X": "$Y"}, str(tmp_path))
    assert (code, err) == (3, "words\n")
    assert out == "".join(word + "|" for word in words) + f"$Y{tmp_path}\n"


def test_the_environment_is_added_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "yes")
    assert run(["/bin/sh", "-c", "echo $KEPT $X"], {"X": "1"})[1] == "yes 1\n"
    assert "X" not in os.environ


def test_nothing_waits_for_the_input_that_the_module_itself_came_by() -> None:
    def ask() -> bool:
        os.dup2(os.pipe()[0], 0)  # the other end stays open
        return _bootstrap.run_command(["/bin/cat"], {}) == (0, "", "")

    assert in_child(ask) == 0


@pytest.mark.parametrize("argv", [["/no/such/command"], ["/"]])
def test_a_command_that_cannot_run_is_an_error(run: Run, argv: list[str]) -> None:
    with pytest.raises(OSError, match=r"No such file|Permission denied"):
        run(argv, {})
