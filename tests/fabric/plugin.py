"""Pytest fixtures: one fabric for the whole run, made when a test first asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from . import _registry
from ._fabric import Fabric
from ._options import missing
from ._process import Identity

SHARED = pytest.StashKey[Fabric]()


@pytest.fixture(scope="session")
def fabric(request: pytest.FixtureRequest) -> Fabric:
    """Four hosts, shared by all tests of the run, wherever this fixture is imported; gone when pytest ends."""
    if reason := missing():
        pytest.skip(reason)
    config = request.config
    if SHARED not in config.stash:
        clear_orphans()
        shared = Fabric(4, name_of_run())
        config.add_cleanup(shared.close)
        shared.up()
        config.stash[SHARED] = shared
    return config.stash[SHARED]


@pytest.fixture
def whole_fabric(fabric: Fabric) -> Iterator[Fabric]:
    """The same, for a test that breaks it: afterwards hosts that are off are on, and cables are plugged in."""
    yield fabric
    fabric.controller.close_connections()
    off = [host for host in fabric.hosts if host.identity is None or not host.identity.alive()]
    for host in off:
        host.destroy()
    fabric.boot_hosts(off)
    for host in fabric.hosts:
        host.restore_network()
        if 22 not in host.listening_ports():
            host.start_sshd()


def name_of_run(suffix: str = "") -> str:
    """A name that says whose fabric it is: this process, never to be taken for a later one with the same pid."""
    owner = Identity.of(os.getpid())
    return f"pytest-{owner.pid}-{owner.start}{suffix}"


def clear_orphans() -> None:
    """Take down the fabrics of pytest runs that were killed."""
    for entry in _registry.entries():
        owner = re.match(r"pytest-(\d+)-(\d+)", entry.name)
        if owner and not Identity(*map(int, owner.groups())).alive():
            Fabric.attach(entry.name).down()
