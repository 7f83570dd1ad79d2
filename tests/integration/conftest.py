"""Fixtures of the integration tests: the user at the controller, and hosts that are clean after every test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host
from tests.fabric.plugin import fabric, whole_fabric
from tests.integration import _nodes
from tests.integration._playbooks import Playbooks

__all__ = ["fabric", "whole_fabric"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.fabric)


@pytest.fixture(scope="session")
def ansible_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its sockets and temporary files: not the home of who runs the tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def playbooks(fabric: Fabric, tmp_path: Path, ansible_home: Path, nothing_left: None) -> Iterator[Playbooks]:
    """The user at the controller."""
    user = Playbooks(fabric, tmp_path, ansible_home)
    yield user
    user.close()


@pytest.fixture
def nothing_left(fabric: Fabric) -> Iterator[None]:
    """After each test no rank, supervisor, record or coordination file is on any host, nor a file that nobody needs."""
    yield
    left = _nodes.left(fabric) + [path for host in fabric.hosts for path in _nodes.unexpected(host)]
    _nodes.sweep(fabric)
    assert not left, "\n".join(["this test left on the hosts:", *left])


@pytest.fixture
def put(fabric: Fabric) -> Iterator[Callable[[Host, str, str, int], str]]:
    """Writes files on hosts, and takes them away after the test: `put(host, path, text, mode)` returns the path."""
    made: list[tuple[Host, str]] = []

    def write(host: Host, path: str, text: str, mode: int = 0o644) -> str:
        made.append((host, path))
        file = _nodes.inside(host, path)
        file.write_text(text)
        os.chmod(file, mode)
        return path

    yield write
    for host, path in made:
        _nodes.inside(host, path).unlink(missing_ok=True)
