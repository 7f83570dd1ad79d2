"""Copies in a working directory: what happened to them, and which of them are still ours to remove."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._copies import altered, remove_copies, sha256

from tests.unit.make import in_child

CONTENT = {"train.py": "print(1)", "data/a": "a", "data/deep/b": "b", "lib/x": "x"}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


MANIFEST = {name: digest(text) for name, text in CONTENT.items()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory with copies as a start leaves them."""
    folder = tmp_path / "work"
    for name, text in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def files(folder: Path) -> Mapping[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024, 1024 * 1024 + 1])
def test_sha256(tmp_path: Path, size: int) -> None:
    (tmp_path / "x").write_bytes(b"x" * size)
    with open(tmp_path / "x", "rb") as file:
        assert sha256(file) == hashlib.sha256(b"x" * size).hexdigest()


def test_altered(work: Path) -> None:
    assert altered(str(work), MANIFEST) == {}
    (work / "train.py").write_text("print(2)")
    (work / "lib/x").unlink()
    (work / "data/a").unlink()
    (work / "data/a").mkdir()
    (work / "new").write_text("the program's own")
    found = altered(str(work), MANIFEST)
    assert (found["train.py"], found["lib/x"]) == ("changed", "missing")
    assert set(found) == {"train.py", "lib/x", "data/a"}


def test_a_fifo_in_place_of_a_copy_does_not_hold_whoever_looks(work: Path) -> None:
    (work / "lib/x").unlink()
    os.mkfifo(work / "lib/x")
    assert in_child(lambda: "lib/x" in altered(str(work), MANIFEST), 1) == 0


def test_unchanged_copies_go_and_so_do_the_folders_that_this_empties(work: Path) -> None:
    removed = remove_copies(str(work), MANIFEST)
    assert sorted(removed) == sorted(str(work / name) for name in CONTENT)
    assert list(work.iterdir()) == []


def test_what_the_program_wrote_stays(work: Path) -> None:
    (work / "train.py").write_text("rewritten")
    (work / "data/deep/checkpoint").write_text("precious")
    (work / "lib/x").unlink()
    (work / "out").mkdir()
    removed = remove_copies(str(work), MANIFEST)
    assert sorted(removed) == [str(work / "data/a"), str(work / "data/deep/b")]
    assert files(work) == {"train.py": "rewritten", "data/deep/checkpoint": "precious"}
    assert (work / "out").is_dir()


def test_a_second_time_there_is_nothing_to_remove(work: Path) -> None:
    remove_copies(str(work), MANIFEST)
    assert remove_copies(str(work), MANIFEST) == []
    assert remove_copies(str(work / "missing"), MANIFEST) == []


def test_nothing_outside_of_the_working_directory_is_removed(work: Path, tmp_path: Path) -> None:
    """The program moved a folder to a bigger disk, and left a symlink: what is there is no longer Muster's."""
    (work / "data").rename(tmp_path / "big-disk")
    (work / "data").symlink_to(tmp_path / "big-disk")
    remove_copies(str(work), MANIFEST)
    assert files(tmp_path / "big-disk") == {"a": "a", "deep/b": "b"}
