"""Unpacking the controller's files: what comes through, and what an archive cannot do."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._unpack import check_relative, unpack
from ansible_collections.muster.mlx.plugins.plugin_utils import _archive

from tests.unit.make import tree


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def member(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"evil", target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content) if kind == tarfile.REGTYPE else 0
    return info


def archive_of(path: Path, *members: tarfile.TarInfo, content: bytes = b"evil") -> str:
    with tarfile.open(path, "w") as tar:
        for info in members:
            tar.addfile(info, io.BytesIO(content) if info.size else None)
    return str(path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "run/work").mkdir(parents=True)
    return tmp_path / "run/work"


def test_what_the_controller_packs_comes_through(work: Path, tmp_path: Path) -> None:
    source = tmp_path / "project"
    (source / "data/deep").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "data/deep/größe 🎺").write_bytes(bytes(range(256)) * 5000)
    (source / "empty").touch()
    found = _archive.collect(["project", "project/run.sh"], str(tmp_path))
    _archive.write_archive(found, str(tmp_path / "a.tar"))
    unpack(str(tmp_path / "a.tar"), str(work.parent / "staging"), str(work), _archive.manifest(found))
    assert {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()} == set(found)
    for name, path in found.items():
        assert (work / name).read_bytes() == Path(path).read_bytes()
    assert [os.stat(work / name).st_mode & 0o777 for name in ("run.sh", "project/empty")] == [0o700, 0o600]
    assert os.listdir(work.parent) == ["work"]


EVIL: dict[str, Callable[[], tarfile.TarInfo]] = {
    "absolute": lambda: member("/etc/evil"),
    "parent": lambda: member("../evil"),
    "parent in the middle": lambda: member("data/../../evil"),
    "symlink": lambda: member("train.py", tarfile.SYMTYPE, target="/etc/passwd"),
    "hard link": lambda: member("train.py", tarfile.LNKTYPE, target="/etc/passwd"),
    "folder": lambda: member("train.py", tarfile.DIRTYPE),
    "FIFO": lambda: member("train.py", tarfile.FIFOTYPE),
    "device": lambda: member("train.py", tarfile.CHRTYPE),
    "one more": lambda: member("extra"),
    "spelt otherwise": lambda: member("./train.py"),
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_member_that_was_not_announced_as_a_file_is_refused(work: Path, tmp_path: Path, kind: str) -> None:
    archive = archive_of(tmp_path / "a.tar", EVIL[kind]())
    before = tree(work)
    with pytest.raises(MusterError, match=r"also holds"):
        unpack(archive, str(work.parent / "staging"), str(work), {"train.py": digest(b"evil")})
    assert tree(work) == before
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("name", ["/tmp/evil", "../evil", "a/../../evil", "..", ".", ""])
def test_not_even_an_announced_name_leaves_the_working_directory(work: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(MusterError, match="below the working directory"):
        check_relative(name)
    archive = archive_of(tmp_path / "a.tar", member(name))
    before = tree(work)
    with pytest.raises(MusterError):
        unpack(archive, str(work.parent / "staging"), str(work), {name: digest(b"evil")})
    assert tree(work) == before
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("name", ["a", "a/b", "a..b", "..a", "a b", ".hidden", "ä"])
def test_check_relative_takes_what_stays(name: str) -> None:
    assert check_relative(name) == name


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        pytest.param({"a.py": digest(b"evil"), "b.py": digest(b"evil")}, "b.py is missing", id="missing"),
        pytest.param({"a.py": digest(b"good")}, "a.py is changed", id="other bytes"),
    ],
)
def test_what_is_wrong_is_said_by_name(work: Path, tmp_path: Path, manifest: dict[str, str], words: str) -> None:
    archive = archive_of(tmp_path / "a.tar", member("a.py"))
    with pytest.raises(MusterError, match=words):
        unpack(archive, str(work.parent / "staging"), str(work), manifest)


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_archive_is_said_in_words(work: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(MusterError):
        unpack(str(tmp_path / "a.tar"), str(work.parent / "staging"), str(work), {"a.py": digest(b"x")})


def test_staging_of_an_earlier_start_is_in_the_way(work: Path, tmp_path: Path) -> None:
    (work.parent / "staging").mkdir()
    with pytest.raises(FileExistsError):
        unpack(archive_of(tmp_path / "a.tar", member("a")), str(work.parent / "staging"), str(work), {"a": ""})
