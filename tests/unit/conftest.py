"""What the unit tests share: a state directory of their own, and the samples of real Macs where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import open_state

from tests.unit.supervised import Supervise, Supervised


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A state directory that nobody has made yet."""
    return open_state(str(tmp_path / "state"))


@pytest.fixture
def sample() -> Callable[[str], str]:
    """Read a recording of a real Mac by its path below the folder that MUSTER_SAMPLES names."""

    def read(name: str) -> str:
        folder = os.environ.get("MUSTER_SAMPLES")
        if not folder:
            pytest.skip("MUSTER_SAMPLES names no folder with recordings of real Macs")
        return Path(folder, name).read_text(encoding="utf-8")

    return read


@pytest.fixture
def supervise(places: Places) -> Iterator[Supervise]:
    """Make ranks under the real supervisor; all are ended afterwards."""
    made: list[Supervised] = []

    def make(*argv: str, **changes: Any) -> Supervised:
        made.append(Supervised(places, argv, **changes))
        return made[-1]

    yield make
    for one in made:
        one.close()
