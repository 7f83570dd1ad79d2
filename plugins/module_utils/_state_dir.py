# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory on disk: private folders, files that appear whole or not at all, records that can be believed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import (
    INSTANCE_NAME,
    MANIFEST,
    RUN_NAME,
    Damaged,
    Exit,
    Places,
    Record,
)

_OWN = frozenset({"runs", "fences", "locks", "quarantine.json"})
_LARGEST = 4 * 1024 * 1024  # a record of 64 ranks is some 10 KiB; more is not ours


def open_state(path: str) -> Places:
    """Return the places below the state directory that `path` names (`~` allowed); nothing is made.

    Raises MusterError when it is not absolute or exists and is not this user's own private directory.
    """
    root = os.path.expanduser(path)
    if not os.path.isabs(root):
        raise MusterError("mlx_state_dir is an absolute path, or one below ~", f"{path!r}")
    root = os.path.normpath(root)
    _check_parents(root)
    if os.path.lexists(root):
        _check_own(root)
        check_private(root)
    return Places(root)


def _check_parents(root: str) -> None:
    """Refuse a place that another user can put something else into: Muster's own program is run from there.

    As sshd's StrictModes does for keys: each folder on the way is root's or this user's, and nobody else can rename
    in it.
    """
    folder = os.path.realpath(os.path.dirname(root))
    while True:
        if os.path.isdir(folder):
            info = os.stat(folder)
            writable = info.st_mode & 0o022 and not info.st_mode & stat.S_ISVTX
            if info.st_uid not in (0, os.geteuid()) or writable:
                raise MusterError(
                    f"The state directory {root} must be where no other user can replace it",
                    f"{folder} {'can be written by others' if writable else f'belongs to user id {info.st_uid}'}",
                    "Set mlx_state_dir to a directory below your home",
                )
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _check_own(root: str) -> None:
    """Refuse a directory that is used for something else: narrowing it would lock others out of `/tmp` or a home."""
    if os.path.islink(root) or not os.path.isdir(root) or not os.lstat(root).st_mode & 0o077:
        return
    others = sorted({*os.listdir(root)} - _OWN)
    if others:
        raise MusterError(
            f"The state directory {root} is Muster's alone, mode 0700",
            f"others can read it and it holds {', '.join(others[:3])}",
            "Set mlx_state_dir to a directory of its own",
        )


def check_private(path: str) -> None:
    """Raise MusterError unless the path is a directory of this user, and no link to one."""
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        kind = "a symlink" if stat.S_ISLNK(info.st_mode) else "no directory"
        raise MusterError(
            f"{path} should be a directory of Muster", f"it is {kind}", "Name the real directory in mlx_state_dir"
        )
    if info.st_uid != os.geteuid():
        raise MusterError(
            f"{path} should belong to user id {os.geteuid()}",
            f"it belongs to user id {info.st_uid}",
            "Run as that user, or set another mlx_state_dir",
        )


def make_private(places: Places, path: str) -> str:
    """Make a folder below the state directory, and the state directory, each 0700; return the path."""
    made = [path]
    while made[-1] != places.root:
        made.append(os.path.dirname(made[-1]))
    for folder in reversed(made):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            check_private(folder)
            if os.lstat(folder).st_mode & 0o077:
                os.chmod(folder, 0o700)
        except OSError as error:
            raise MusterError(
                f"The state directory {places.root} should be writable",
                f"making {folder} failed: {error.strerror}",
                "Make its parent, free the disk, or set mlx_state_dir to a directory that can be written",
            ) from error
    return path


def write_whole(path: str, content: bytes) -> None:
    """Write a file of mode 0600 so that a reader, or a crash, sees all of it or none of it."""
    temporary = f"{path}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        # A write says what went wrong and not where.
        raise OSError(error.errno, error.strerror, path) from error


def write_json(path: str, data: Any) -> None:
    """Write plain data, see write_whole."""
    write_whole(path, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())


def create(path: str, content: bytes = b"") -> None:
    """Make a file of mode 0600 that must not be there yet; no symlink is followed."""
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb"
    ) as file:
        file.write(content)


def read_json(path: str) -> Any:
    """Read JSON from a regular file of this user.

    Raises FileNotFoundError when there is none, ValueError (with the reason) when it cannot be believed.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError("it is a symlink" if error.errno == errno.ELOOP else str(error.strerror)) from error
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("it is no regular file")
        if info.st_uid != os.geteuid():
            raise ValueError(f"it belongs to user id {info.st_uid}")
        if info.st_size > _LARGEST:
            raise ValueError(f"it has {info.st_size} bytes")
        with os.fdopen(os.dup(fd), "rb") as file:
            return json.loads(file.read().decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested without end") from error
    finally:
        os.close(fd)


def read_manifest(folder: str) -> dict[str, str]:
    """Return which files below an instance's `work/` are Muster's copies; none when the list is lacking or damaged."""
    try:
        data = read_json(os.path.join(folder, MANIFEST))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        return {}
    return data


def read_record(places: Places, run: str, instance: str, rank: int) -> Record | Damaged | None:
    """Return the record of a rank, None when there is none, or why it cannot be believed."""
    path = os.path.join(places.rank(run, instance, rank), "record.json")
    try:
        record = Record.from_json(read_json(path))
        if (record.run, record.instance, record.rank) != (run, instance, rank):
            raise ValueError(f"it is the record of {record.marker}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, OSError) as error:
        return Damaged(path, str(error))
    return record


def read_exit(places: Places, record: Record) -> Exit | None:
    """Return how a rank ended, or None when nobody wrote it down."""
    path = os.path.join(places.rank(record.run, record.instance, record.rank), "exit.json")
    try:
        return Exit.from_json(read_json(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def runs(places: Places) -> list[str]:
    """Return the names of the runs that have a folder."""
    return sorted(name for name in _names(places.runs) if RUN_NAME.match(name))


def instances(places: Places, run: str) -> list[str]:
    """Return the ids of a run's instances, oldest first."""
    return sorted(name for name in _names(places.run(run)) if INSTANCE_NAME.match(name))


def ranks(places: Places, run: str, instance: str) -> list[int]:
    """Return the rank numbers that have a folder in an instance."""
    names = _names(places.instance(run, instance))
    found = sorted(int(name[5:]) for name in names if name.startswith("rank-") and name[5:].isdigit())
    for rank in found:
        _names(places.rank(run, instance, rank))  # a folder that is a link must not be looked into
    return found


def records(places: Places, run: str) -> list[Record | Damaged]:
    """Return every record of a run on this node, oldest instance first."""
    found = (read_record(places, run, i, rank) for i in instances(places, run) for rank in ranks(places, run, i))
    return [record for record in found if record is not None]


def remove(path: str) -> bool:
    """Remove a file or an empty folder; False when it was not there."""
    try:
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def prune(places: Places, run: str, keep: int, living: Collection[str] = ()) -> list[str]:
    """Remove the oldest finished instances of a run beyond `keep`; return their folders.

    An instance with a record, with something in its working directory, or of which a process lives stays.
    """
    finished = [
        instance
        for instance in instances(places, run)
        if all(read_record(places, run, instance, rank) is None for rank in ranks(places, run, instance))
        and not _names(places.work(run, instance))
        and instance not in living
    ]
    gone = [places.instance(run, instance) for instance in finished[: max(0, len(finished) - keep)]]
    for folder in gone:
        # What cannot be removed now is tried again at the next teardown; it must not cost this one its receipt.
        shutil.rmtree(folder, ignore_errors=True)
    return gone


@contextlib.contextmanager
def lock(places: Places, name: str, timeout: float) -> Iterator[None]:
    """Hold a lock of the state directory.

    The kernel frees it when its holder dies, so there is no stale one. Raises MusterError naming the
    holder when it stays taken for `timeout` seconds.
    """
    path = places.lock(name)
    make_private(places, os.path.dirname(path))
    fd = _open_lock(path)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise MusterError(
                        f"The lock {path} should become free within {timeout:g} s",
                        f"process {os.pread(fd, 100, 0).decode('utf-8', 'replace') or 'unknown'} holds it",
                        "Wait for that launch or teardown to end, or end it",
                    ) from None
                time.sleep(0.02)
        with contextlib.suppress(OSError):  # who holds it is for people; a full disk keeps nobody from holding it
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d" % os.getpid(), 0)
        yield
    finally:
        os.close(fd)


def _open_lock(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.ENOSPC):
            raise
        # Where no file can be made, the folder is locked: a rank must be stood down on a full or read-only disk too.
        return os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _names(folder: str) -> list[str]:
    """Return what a folder of Muster holds; raise MusterError when it is a link, or another user's."""
    try:
        info = os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    if stat.S_ISLNK(info.st_mode) or (stat.S_ISDIR(info.st_mode) and info.st_uid != os.geteuid()):
        check_private(folder)
    return os.listdir(folder) if stat.S_ISDIR(info.st_mode) else []
