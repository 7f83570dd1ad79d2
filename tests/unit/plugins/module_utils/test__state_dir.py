"""The state directory: whose it must be, files that appear whole, and what is removed from it."""

from __future__ import annotations

import os
import re
import signal
import stat
from pathlib import Path

import pytest
from ansible_collections.muster.mlx.plugins.module_utils import _state_dir
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import (
    create,
    instances,
    make_private,
    open_state,
    prune,
    ranks,
    read_json,
    remove,
    runs,
    write_json,
    write_whole,
)

from tests.unit.make import INSTANCE, OLDER, in_child, needs_root, put, record, tree


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


class TestSecurity:
    """Where records may lie: a real directory of this user, closed to all others."""

    def test_a_missing_directory_is_fine_and_not_made(self, tmp_path: Path) -> None:
        assert open_state(str(tmp_path / "a/b")).root == str(tmp_path / "a/b")
        assert list(tmp_path.iterdir()) == []

    def test_home_is_expanded_and_the_path_tidied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert open_state("~/x/../.muster/").root == str(tmp_path / ".muster")

    @pytest.mark.parametrize("path", ["muster", "./muster", "", "~nobody-of-that-name/x"])
    def test_a_relative_path_is_refused(self, path: str) -> None:
        with pytest.raises(MusterError, match="absolute path"):
            open_state(path)

    def test_a_symlink_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir(mode=0o700)
        (tmp_path / "link").symlink_to("real")
        with pytest.raises(MusterError, match="a symlink"):
            open_state(str(tmp_path / "link"))

    def test_a_dangling_symlink_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("nowhere")
        with pytest.raises(MusterError, match="a symlink"):
            open_state(str(tmp_path / "link"))

    def test_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(MusterError, match="no directory"):
            open_state(str(tmp_path / "file"))

    @needs_root
    def test_another_users_directory_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "theirs").mkdir(mode=0o700)
        os.chown(tmp_path / "theirs", 4242, 4242)
        with pytest.raises(MusterError, match="belongs to user id 4242"):
            open_state(str(tmp_path / "theirs"))

    @pytest.mark.parametrize("wide", [0o777, 0o755, 0o701, 0o770])
    def test_a_wide_mode_is_narrowed(self, tmp_path: Path, wide: int) -> None:
        root = tmp_path / "state"
        root.mkdir()
        root.chmod(wide)
        make_private(open_state(str(root)), str(root))
        assert mode(root) == 0o700

    @pytest.mark.parametrize("wide", [0o1777, 0o755])
    def test_a_directory_that_holds_other_things_is_refused_and_left_alone(self, tmp_path: Path, wide: int) -> None:
        root = tmp_path / "tmp"
        root.mkdir()
        (root / "somebody-elses").touch()
        root.chmod(wide)
        with pytest.raises(MusterError):
            open_state(str(root))
        assert mode(root) == wide

    @pytest.mark.parametrize("inside", ["runs", "runs/main", f"runs/main/{INSTANCE}", f"runs/main/{INSTANCE}/rank-0"])
    def test_a_folder_inside_that_is_a_symlink_is_refused(self, places: Places, tmp_path: Path, inside: str) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        link = Path(places.root, inside)
        make_private(places, str(link.parent))
        link.symlink_to(elsewhere)
        with pytest.raises(MusterError, match="a symlink"):
            make_private(places, places.rank("main", INSTANCE, 0))
        assert list(elsewhere.iterdir()) == []

    def test_every_folder_on_the_way_is_private(self, places: Places) -> None:
        before = os.umask(0)
        try:
            path = make_private(places, places.rank("main", INSTANCE, 0))
        finally:
            os.umask(before)
        while path != os.path.dirname(places.root):
            assert mode(path) == 0o700
            path = os.path.dirname(path)

    def test_a_missing_parent_is_said_in_words(self, tmp_path: Path) -> None:
        places = open_state(str(tmp_path / "no/where"))
        with pytest.raises(MusterError, match=r"no/where should be writable.*No such file"):
            make_private(places, places.runs)


class TestWriteWhole:
    """All of a file or none of it."""

    def test_content_and_mode(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            write_whole(str(tmp_path / "x"), b"new")
        finally:
            os.umask(before)
        assert ((tmp_path / "x").read_bytes(), mode(tmp_path / "x")) == (b"new", 0o600)
        assert os.listdir(tmp_path) == ["x"]

    @pytest.mark.parametrize("step", ["fsync", "rename"])
    def test_a_failure_leaves_the_old_content_and_no_litter(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        def fail(*_arguments: object) -> None:
            raise OSError(28, "No space left on device")

        (tmp_path / "x").write_bytes(b"old")
        monkeypatch.setattr(os, step, fail)
        with pytest.raises(OSError, match="No space left"):
            write_whole(str(tmp_path / "x"), b"new")
        assert ((tmp_path / "x").read_bytes(), os.listdir(tmp_path)) == (b"old", ["x"])

    @pytest.mark.parametrize("step", ["write", "fsync", "rename"])
    def test_a_crash_leaves_the_old_content(self, tmp_path: Path, step: str) -> None:
        """A child is killed at that step; what it leaves beside the file does not hinder the next writer."""
        (tmp_path / "x").write_bytes(b"old")

        def crash_there() -> None:
            setattr(os, "fdopen" if step == "write" else step, lambda *_arguments: os.kill(os.getpid(), signal.SIGKILL))
            write_whole(str(tmp_path / "x"), b"new")

        assert in_child(crash_there) == -signal.SIGKILL
        assert (tmp_path / "x").read_bytes() == b"old"
        write_whole(str(tmp_path / "x"), b"new")
        assert (tmp_path / "x").read_bytes() == b"new"
        assert [name for name in os.listdir(tmp_path) if not re.fullmatch(r"x|x\.\d+\.new", name)] == []

    def test_what_a_dead_writer_of_the_same_pid_left_is_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"do not touch")
        (tmp_path / f"x.{os.getpid()}.new").symlink_to("target")
        write_whole(str(tmp_path / "x"), b"new")
        assert (tmp_path / "x").read_bytes() == b"new"
        assert (tmp_path / "target").read_bytes() == b"do not touch"

    def test_a_symlink_in_place_of_the_file_is_replaced_and_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"do not touch")
        (tmp_path / "x").symlink_to("target")
        write_whole(str(tmp_path / "x"), b"new")
        assert not (tmp_path / "x").is_symlink()
        assert (tmp_path / "target").read_bytes() == b"do not touch"

    def test_json_comes_back_as_it_was(self, tmp_path: Path) -> None:
        data = {"emoji": "🎺", "lines": "a\nb", "none": None, "deep": [1, 2.5, {"": []}]}
        write_json(str(tmp_path / "x"), data)
        assert read_json(str(tmp_path / "x")) == data


class TestCreate:
    """Files that must be new."""

    def test_a_file_that_is_there_stays(self, tmp_path: Path) -> None:
        create(str(tmp_path / "x"), b"first")
        with pytest.raises(FileExistsError):
            create(str(tmp_path / "x"), b"second")
        assert ((tmp_path / "x").read_bytes(), mode(tmp_path / "x")) == (b"first", 0o600)

    def test_a_symlink_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "x").symlink_to("target")
        with pytest.raises(OSError, match="exists"):
            create(str(tmp_path / "x"))
        assert not (tmp_path / "target").exists()


def test_only_names_of_ours_are_listed(places: Places) -> None:
    put(places, record())
    put(places, record(rank=10, hosts=()))
    put(places, record(instance=OLDER))
    put(places, record(run="a.b-c_1"))
    for odd in (
        "runs/Main",
        "runs/.x",
        "runs/main/latest",
        f"runs/main/{INSTANCE}/rank-x",
        f"runs/main/{INSTANCE}/work",
    ):
        make_private(places, os.path.join(places.root, odd))
    assert runs(places) == ["a.b-c_1", "main"]
    assert instances(places, "main") == [OLDER, INSTANCE]
    assert ranks(places, "main", INSTANCE) == [0, 10]
    assert (instances(places, "other"), ranks(places, "main", "20200101T000000Z-00000000")) == ([], [])


def test_nothing_is_listed_where_nothing_is(places: Places) -> None:
    assert (runs(places), instances(places, "main")) == ([], [])
    assert not os.path.exists(places.root)


class TestRemove:
    """One file or empty folder at a time."""

    def test_file_folder_symlink_and_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
        (tmp_path / "full/inside").mkdir(parents=True)
        (tmp_path / "link").symlink_to("full")
        names = ["file", "folder", "link", "missing", "full/x/y"]
        assert [remove(str(tmp_path / name)) for name in names] == [True, True, True, False, False]
        assert os.listdir(tmp_path) == ["full"]
        with pytest.raises(OSError, match="not empty"):
            remove(str(tmp_path / "full"))


class TestPrune:
    """Old instances go, the oldest first, and never one that holds something."""

    names = tuple(f"20261130T20450{number}Z-0a1b2c3d" for number in range(5))

    def finished(self, places: Places, *names: str) -> None:
        for name in names:
            folder = put(places, record(instance=name))
            (folder / "record.json").unlink()

    @pytest.mark.parametrize(("keep", "gone"), [(0, 5), (1, 4), (3, 2), (5, 0), (10, 0)])
    def test_how_many_stay(self, places: Places, keep: int, gone: int) -> None:
        self.finished(places, *self.names)
        assert prune(places, "main", keep) == [places.instance("main", name) for name in self.names[:gone]]
        assert instances(places, "main") == list(self.names[gone:])

    def test_one_of_which_a_process_lives_stays(self, places: Places) -> None:
        self.finished(places, *self.names[:2])
        assert prune(places, "main", 0, {self.names[0]}) == [places.instance("main", self.names[1])]
        assert instances(places, "main") == [self.names[0]]

    def test_one_with_a_record_with_a_damaged_one_or_with_work_stays(self, places: Places) -> None:
        self.finished(places, *self.names[3:])
        put(places, record(instance=self.names[0]))
        (put(places, record(instance=self.names[1])) / "record.json").write_text("{")
        (put(places, record(instance=self.names[2]), {"checkpoint": "x"}) / "record.json").unlink()
        assert prune(places, "main", 0) == [places.instance("main", name) for name in self.names[3:]]
        assert instances(places, "main") == list(self.names[:3])

    def test_other_runs_stay(self, places: Places) -> None:
        self.finished(places, *self.names)
        put(places, record(run="other"))
        before = tree(places.run("other"))
        prune(places, "main", 0)
        assert tree(places.run("other")) == before

    def test_a_run_that_never_was(self, places: Places) -> None:
        assert _state_dir.prune(places, "main", 3) == []


class TestParents:
    """Muster's own program is run from the state directory, so nobody else may be able to replace it."""

    @pytest.mark.parametrize("mode", [0o777, 0o775, 0o722])
    def test_a_parent_that_others_can_write_is_refused(self, tmp_path: Path, mode: int) -> None:
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(mode)
        with pytest.raises(MusterError, match="open can be written by others"):
            open_state(str(tmp_path / "open" / "state"))

    @needs_root
    def test_a_parent_of_another_user_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "theirs").mkdir()
        os.chown(tmp_path / "theirs", 4242, 4242)
        with pytest.raises(MusterError, match="theirs belongs to user id 4242"):
            open_state(str(tmp_path / "theirs" / "state"))

    @pytest.mark.parametrize("mode", [0o1777, 0o755, 0o700])
    def test_others_are_accepted(self, tmp_path: Path, mode: int) -> None:
        """A directory with the sticky bit, as /tmp, lets nobody rename what is not theirs."""
        (tmp_path / "fine").mkdir()
        (tmp_path / "fine").chmod(mode)
        assert open_state(str(tmp_path / "fine" / "state")).root == str(tmp_path / "fine" / "state")
