# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a temporary directory once into plain data, and removing from it what was decided about and nothing else.

Only names that mlx.launch and exo give are looked at. What has such a name is opened only when it is a regular file of
this user, without following a link and without waiting (a FIFO would hold the opener for ever).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._process import System

MLX_LAUNCH, EXO = "mlx.launch", "exo"

_MKTEMP = re.compile(r"tmp\.(?:[A-Za-z0-9]{8}|[A-Za-z0-9]{10})\Z")
"""What `mktemp` makes without arguments: 8 letters on macOS before 14, 10 since then and on Linux."""
_EXO_FILE = re.compile(r"hosts_(?:[A-Za-z0-9-]{1,64}_)?\d{1,4}\.json\Z")
_EXO_FOLDER = re.compile(r"tmp[a-z0-9_]{8}\Z")
"""What Python's TemporaryDirectory makes; newer exo puts its file into one of its own."""

_LARGEST = 1 << 20  # bytes; the ring of 1000 ranks is below 40 KiB
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Entry:
    """A name in a temporary directory, and the file that bore it when it was read.

    `owner` is whose name it has. `odd` says why it is not what its name promises; then nothing was read. `nested` tells
    that `folder` holds nothing else and goes with it.
    """

    folder: str
    name: str
    owner: str
    device: int
    inode: int
    size: int
    modified_ns: int
    content: bytes = b""
    odd: str = ""
    nested: bool = False

    @property
    def path(self) -> str:
        """Its path, absolute and without links."""
        return os.path.join(self.folder, self.name)

    @property
    def modified(self) -> float:
        """When it was last written, in epoch seconds by the node's clock."""
        return self.modified_ns / 1e9


def places_of(environment: Mapping[str, str], system: System, named: Iterable[str]) -> list[str]:
    """Return the temporary directories of this user, and those that the user names, each once and without links.

    Raises MusterError for a named one that is not absolute.
    """
    found = [environment.get("TMPDIR", ""), *system.temporary()]
    for path in named:
        expanded = os.path.expanduser(path)
        if not os.path.isabs(expanded):
            raise MusterError("Each of directories is an absolute path on the node, or one below ~", f"{path!r}")
        found.append(expanded)
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.isabs(path)))


def read_folder(path: str) -> tuple[list[Entry], str]:
    """Return what a directory has under the names of mlx.launch and exo, and in words why it could not be looked at."""
    try:
        fd = os.open(path, _FOLDER)
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"it cannot be read: {error.strerror}"
    try:
        owner = os.fstat(fd).st_uid
        if owner not in (0, os.geteuid()):
            return [], f"it belongs to user id {owner}"
        return list(_entries(path, fd)), ""
    finally:
        os.close(fd)


def _entries(folder: str, fd: int) -> Iterator[Entry]:
    for name in sorted(os.listdir(fd)):
        if _MKTEMP.match(name) or _EXO_FILE.match(name):
            found = _read(folder, fd, name)
            if found is not None:
                yield found
        elif _EXO_FOLDER.match(name):
            yield from _nested(folder, fd, name)


def _nested(folder: str, fd: int, name: str) -> Iterator[Entry]:
    """Yield the file of a directory of this user that holds exactly one, under exo's name; other directories are not
    exo's."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=fd)
    except OSError:
        return
    try:
        names = os.listdir(inner)
        if os.fstat(inner).st_uid == os.geteuid() and len(names) == 1 and _EXO_FILE.match(names[0]):
            found = _read(os.path.join(folder, name), inner, names[0], nested=True)
            if found is not None:
                yield found
    finally:
        os.close(inner)


def _read(folder: str, fd: int, name: str, nested: bool = False) -> Entry | None:
    owner = MLX_LAUNCH if _MKTEMP.match(name) else EXO
    try:
        info = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    odd, content = _refusal(info), b""
    if not odd:
        try:
            content = _content(fd, name, info)
        except FileNotFoundError:
            return None
        except OSError as error:
            odd = f"it cannot be read: {error.strerror}"
        except ValueError as error:
            odd = str(error)
    return Entry(folder, name, owner, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, content, odd, nested)


def _refusal(info: os.stat_result) -> str:
    """Return why something is not opened at all, empty for a plain file of this user."""
    kinds = {
        stat.S_IFLNK: "a symlink",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    kind = stat.S_IFMT(info.st_mode)
    if kind != stat.S_IFREG:
        return "it is {}".format(kinds.get(kind, "a device"))
    if info.st_uid != os.geteuid():
        return f"it belongs to user id {info.st_uid}"
    if info.st_nlink != 1:
        return f"it has {info.st_nlink} names"
    if info.st_size > _LARGEST:
        return f"it has {info.st_size} bytes"
    return ""


def _content(fd: int, name: str, info: os.stat_result) -> bytes:
    # The time of the last access is left alone where the system can do that: looking should leave no trace.
    file = os.open(name, _READ | getattr(os, "O_NOATIME", 0), dir_fd=fd)
    try:
        now = os.fstat(file)
        if (now.st_dev, now.st_ino) != (info.st_dev, info.st_ino) or _refusal(now):
            raise ValueError("it was replaced while it was looked at")
        parts = []
        left = _LARGEST + 1
        while left and (part := os.read(file, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(file)


def remove(entry: Entry) -> str:
    """Remove the very file that was read, and its folder when it had one of its own.

    Returns `removed`, `gone` (somebody else did it) or `changed` (another file bears the name now, or it was written
    to: it stays). Raises OSError when the system refuses.
    """
    try:
        fd = os.open(entry.folder, _FOLDER)
    except FileNotFoundError:
        return "gone"
    try:
        now = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
        if (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) != (
            entry.device,
            entry.inode,
            entry.size,
            entry.modified_ns,
        ) or _refusal(now):
            return "changed"
        os.unlink(entry.name, dir_fd=fd)
    except FileNotFoundError:
        return "gone"
    finally:
        os.close(fd)
    if entry.nested:
        os.rmdir(entry.folder)
    return "removed"
