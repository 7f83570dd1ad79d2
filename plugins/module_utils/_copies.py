# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of the controller's files in a run's working directory: told apart by hash, removed if still ours."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from typing import IO

_BLOCK = 1024 * 1024


def sha256(file: IO[bytes]) -> str:
    """Return the hexadecimal SHA-256 of what is left to read."""
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(_BLOCK), b""):
        digest.update(block)
    return digest.hexdigest()


def altered(work: str, manifest: Mapping[str, str]) -> dict[str, str]:
    """Return the copies that are no longer what was put there: path → `changed`, `missing` or `unreadable`."""
    found = {}
    for name, wanted in manifest.items():
        try:
            with _open_copy(work, name) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or sha256(file) != wanted:
                    found[name] = "changed"
        except FileNotFoundError:
            found[name] = "missing"
        except OSError as error:
            found[name] = "changed" if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR) else "unreadable"
    return found


def _open_copy(work: str, name: str) -> IO[bytes]:
    """Open a copy without following a link on the way, and without waiting for the other end of a pipe."""
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        *parents, last = name.split("/")
        for part in parents:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(last, flags, dir_fd=folder), "rb")
    finally:
        os.close(folder)


def remove_copies(work: str, manifest: Mapping[str, str]) -> list[str]:
    """Remove the copies that are unchanged, and the folders that this empties; return the paths removed.

    What the program wrote, also over a copy, is not ours to remove.
    """
    kept = altered(work, manifest)
    removed = [os.path.join(work, name) for name in manifest if name not in kept]
    for path in removed:
        os.unlink(path)
    folders = {os.path.dirname(name) for name in manifest}
    parents = {"/".join(name.split("/")[: depth + 1]) for name in folders for depth in range(name.count("/") + 1)} - {
        ""
    }
    for folder in sorted(parents, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(work, folder))
    return removed
