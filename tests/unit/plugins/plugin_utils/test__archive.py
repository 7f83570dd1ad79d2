"""The controller's files: what `mlx_files` stands for, and what cannot be one."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.plugin_utils._archive import collect, manifest, size, write_archive


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A project of a user."""
    for name in ("train.py", "lib/a.py", "lib/deep/b.py", "lib/__pycache__/a.pyc", "other/train.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link.py").symlink_to("train.py")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([], {}),
        (["train.py"], {"train.py": "train.py"}),
        (["lib/a.py"], {"a.py": "lib/a.py"}),
        (["lib"], {"lib/a.py": "lib/a.py", "lib/deep/b.py": "lib/deep/b.py"}),
        (["lib/"], {"lib/a.py": "lib/a.py", "lib/deep/b.py": "lib/deep/b.py"}),
        (["lib/deep", "./train.py"], {"deep/b.py": "lib/deep/b.py", "train.py": "train.py"}),
        (["link.py"], {"link.py": "link.py"}),
        (["train.py", "lib/../train.py"], {"train.py": "train.py"}),
        (["empty"], {}),
    ],
)
def test_collect(base: Path, paths: list[str], found: dict[str, str]) -> None:
    assert collect(paths, str(base)) == {name: str(base / source) for name, source in found.items()}
    assert collect([str(base / path) for path in paths], "/nowhere") == collect(paths, str(base))


def test_collect_expands_home(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(base))
    assert collect(["~/train.py"], "/nowhere") == {"train.py": str(base / "train.py")}


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["missing.py"], "missing.py is not there"),
        (["train.py", "other/train.py"], "train.py would come from .* and from .*other/train.py"),
        (["pipe"], "is neither"),
        (["bad"], "is none"),
    ],
)
def test_collect_refuses(base: Path, paths: list[str], words: str) -> None:
    os.mkfifo(base / "pipe")
    (base / "bad").mkdir()
    (base / "bad/link").symlink_to("nowhere")
    with pytest.raises(MusterError, match=words):
        collect(paths, str(base))


def test_what_is_packed_is_what_was_announced(base: Path) -> None:
    files = collect(["lib", "link.py"], str(base))
    write_archive(files, str(base / "a.tar"))
    with tarfile.open(base / "a.tar") as tar:
        assert sorted(tar.getnames()) == sorted(files)
        assert all(member.isreg() for member in tar)
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            assert hashlib.sha256(content.read()).hexdigest() == manifest(files)[member.name]
    assert size(files) == sum(len(Path(source).read_bytes()) for source in files.values())
