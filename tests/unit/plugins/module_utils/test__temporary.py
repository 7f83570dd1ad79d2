"""Reading a temporary directory: what is opened, what is only named, and that nothing else is ever removed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _temporary
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._temporary import Entry, places_of, read_folder, remove

from tests.unit.foreign_node import ForeignNode
from tests.unit.make import needs_root, tree

NAME = "tmp.k3VdQ0xYbN"
EXO = "hosts_0a1b2c3d-1111-4222-8333-444455556666_0.json"


def only(folder: Path) -> Entry:
    found, problem = read_folder(str(folder))
    assert (len(found), problem) == (1, "")
    return found[0]


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("tmp.k3VdQ0xYbN", "mlx.launch"),
        ("tmp.i76crR36", "mlx.launch"),
        ("hosts_0.json", "exo"),
        ("hosts_12.json", "exo"),
        (EXO, "exo"),
        ("tmp.k3VdQ0xYb", None),
        ("tmp.k3VdQ0xYbNN", None),
        ("tmp.k3VdQ0xY_N", None),
        ("tmp.None", None),
        ("tmp.k3VdQ0xYbN\n", None),
        ("tmpk3vdq0xy", None),
        ("hosts.json", None),
        ("hosts_a.json", None),
        ("hosts_1_2_3.json", None),
        ("hosts_0.json.bak", None),
        ("my_hosts_0.json", None),
        ("hosts-20261130T204500Z-0a1b2c3d-0.json", None),
    ],
)
def test_names(tmp_path: Path, name: str, owner: str | None) -> None:
    (tmp_path / name).write_text("4711\n")
    found, problem = read_folder(str(tmp_path))
    assert problem == ""
    assert [(one.name, one.owner, one.content, one.odd) for one in found] == (
        [(name, owner, b"4711\n", "")] if owner else []
    )


def link(path: Path) -> None:
    target = path.with_name("secret")
    target.write_text("4711\n")
    path.symlink_to(target)


def names(path: Path) -> None:
    path.write_text("4711\n")
    os.link(path, path.with_name("other"))


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(path.parent, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(link, "a symlink", id="symlink to a file"),
        pytest.param(lambda path: path.symlink_to("/nowhere"), "a symlink", id="dangling symlink"),
        pytest.param(lambda path: path.mkdir(), "a directory", id="directory"),
        pytest.param(os.mkfifo, "a FIFO", id="FIFO"),
        pytest.param(
            bind, "a socket", id="socket", marks=pytest.mark.skipif(not os.path.exists("/proc"), reason="/proc")
        ),
        pytest.param(lambda path: path.write_bytes(bytes(2 << 20)), "2097152 bytes", id="too big"),
        pytest.param(names, "2 names", id="two names"),
    ],
)
def test_what_is_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], reason: str
) -> None:
    make(tmp_path / NAME)
    opened = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: (opened.append(path), plain(path, *rest, **more))[1])
    before = tree(tmp_path)
    one = only(tmp_path)
    assert reason in one.odd
    assert one.content == b""
    assert opened == [str(tmp_path)]
    assert tree(tmp_path) == before


@needs_root
def test_another_users_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("4711\n")
    os.chown(tmp_path / NAME, 4242, 4242)
    assert only(tmp_path).odd == "it belongs to user id 4242"


@needs_root
def test_another_users_directory_is_not_looked_through(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("4711\n")
    os.chown(tmp_path, 4242, 4242)
    assert read_folder(str(tmp_path)) == ([], "it belongs to user id 4242")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME).write_text("4711\n")

    def refuse(*dummy: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_temporary, "_content", refuse)
    assert only(tmp_path).odd == "it cannot be read: Permission denied"


def test_a_file_that_is_swapped_before_it_is_opened_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).write_text("4711\n")
    plain = os.open

    def swap(path: str, *rest: object, **more: object) -> int:
        if path == NAME:
            os.rename(tmp_path / NAME, tmp_path / "away")
            (tmp_path / NAME).write_text("another\n")
        return plain(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", swap)
    assert only(tmp_path).odd == "it was replaced while it was looked at"


def test_a_directory_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_folder(str(tmp_path / "none")) == ([], "")


def test_a_file_in_place_of_the_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_folder(str(tmp_path / "file")) == ([], "it cannot be read: Not a directory")


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text("4711\n")
    os.utime(path, (1000, 2000))
    only(tmp_path)
    assert (path.stat().st_atime, path.stat().st_mtime) == (1000, 2000)


class TestNested:
    """Newer exo makes a directory of its own for the one file."""

    def test_is_found_and_goes_with_its_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "tmpab12_xyz"
        folder.mkdir(mode=0o700)
        (folder / EXO).write_text('["10.0.0.1:5000"]')
        one = only(tmp_path)
        assert (one.path, one.owner, one.nested) == (str(folder / EXO), "exo", True)
        assert remove(one) == "removed"
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "files"),
        [
            ("tmpab12_xyz", [EXO, "more"]),
            ("tmpab12_xyz", ["more"]),
            ("tmpab12_xyz", []),
            ("tmpAB12_xyz", [EXO]),
            ("other", [EXO]),
        ],
    )
    def test_other_directories_are_not_exos(self, tmp_path: Path, name: str, files: list[str]) -> None:
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text("[]")
        assert read_folder(str(tmp_path)) == ([], "")

    def test_a_linked_directory_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / EXO).write_text("[]")
        (tmp_path / "tmpab12_xyz").symlink_to(tmp_path / "real")
        assert read_folder(str(tmp_path)) == ([], "")


class TestRemove:
    """Only the very file that was read goes."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / NAME
        path.write_text("4711\n")
        return path

    def test_it_goes_and_nothing_else(self, path: Path) -> None:
        path.with_name("other").write_text("x")
        assert remove(only(path.parent)) == "removed"
        assert [one.name for one in path.parent.iterdir()] == ["other"]

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda path: path.write_text("99\n"), id="written anew"),
            pytest.param(lambda path: (path.rename(path.with_name("away")), path.write_text("4711\n")), id="replaced"),
            pytest.param(
                lambda path: (path.rename(path.with_name("away")), path.symlink_to("away")), id="moved and linked"
            ),
            pytest.param(lambda path: os.link(path, path.with_name("other")), id="got a second name"),
            pytest.param(lambda path: os.utime(path, (1, 1)), id="touched"),
        ],
    )
    def test_one_that_changed_stays(self, path: Path, change: Callable[[Path], None]) -> None:
        one = only(path.parent)
        change(path)
        before = tree(path.parent)
        assert remove(one) == "changed"
        assert tree(path.parent) == before

    def test_one_that_is_gone_is_no_error(self, path: Path) -> None:
        one = only(path.parent)
        path.unlink()
        assert remove(one) == "gone"
        path.parent.rmdir()
        assert remove(one) == "gone"

    def test_two_at_once_remove_it_once(self, path: Path) -> None:
        one = only(path.parent)
        outcomes: list[str] = []
        threads = [threading.Thread(target=lambda: outcomes.append(remove(one))) for _number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert sorted(outcomes) == ["gone", "removed"]


class TestPlaces:
    """Where files of mktemp are."""

    def test_each_once_and_without_links(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        node = ForeignNode()
        node.folders = [f"{tmp_path}/real/", f"{tmp_path}/other"]
        found = places_of({"TMPDIR": f"{tmp_path}/link"}, node, [f"{tmp_path}/more", "~/x"])
        assert found == [f"{tmp_path}/real", f"{tmp_path}/other", f"{tmp_path}/more", os.path.expanduser("~/x")]

    @pytest.mark.parametrize("value", ["", "relative"])
    def test_a_tmpdir_that_names_no_place(self, value: str) -> None:
        assert places_of({"TMPDIR": value}, ForeignNode(), []) == []

    def test_a_directory_of_the_user_is_absolute(self) -> None:
        with pytest.raises(MusterError, match="absolute"):
            places_of({}, ForeignNode(), ["here"])
