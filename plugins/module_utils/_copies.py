# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of the controller's files in a run's working directory: unpacked once, told apart by hash, removed if still ours."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
from typing import IO, Mapping

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError

_BLOCK = 1024 * 1024


def sha256(file: IO[bytes]) -> str:
    """Return the hexadecimal SHA-256 of what is left to read."""
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(_BLOCK), b""):
        digest.update(block)
    return digest.hexdigest()


def unpack(archive: str, staging: str, work: str, manifest: Mapping[str, str]) -> None:
    """Put the archive's files below the working directory, each whole or not at all, by way of `staging`.

    Only what the manifest names is taken, as regular files, and each is read back and compared:
    raises MusterError when one is missing or has other bytes.
    """
    os.mkdir(staging, 0o700)
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar):
            if member.name not in manifest or not member.isreg():
                raise MusterError(
                    "The archive of mlx_files should hold what the launch announced", "it also holds %r" % member.name
                )
            content = tar.extractfile(member)
            if content is not None:
                _put(os.path.join(staging, str(number)), content, member.mode)
                target = os.path.join(work, check_relative(member.name))
                os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
                os.rename(os.path.join(staging, str(number)), target)
    os.rmdir(staging)
    wrong = altered(work, manifest)
    if wrong:
        raise MusterError(
            "Every copy of mlx_files in %s has the controller's bytes" % work,
            "%s" % ", ".join("%s is %s" % pair for pair in wrong.items()),
            "Look at the node's disk and launch again",
        )


def altered(work: str, manifest: Mapping[str, str]) -> dict[str, str]:
    """Return the copies that are no longer what was put there: path → `changed`, `missing` or `unreadable`."""
    found = {}
    for name, wanted in manifest.items():
        try:
            with open(os.path.join(work, name), "rb") as file:
                if sha256(file) != wanted:
                    found[name] = "changed"
        except FileNotFoundError:
            found[name] = "missing"
        except OSError:
            found[name] = "unreadable"
    return found


def remove_copies(work: str, manifest: Mapping[str, str]) -> list[str]:
    """Remove the copies that are unchanged, and the folders that this empties; return the paths removed.

    What the program wrote, also over a copy, is not ours to remove.
    """
    kept = altered(work, manifest)
    removed = [os.path.join(work, name) for name in manifest if name not in kept]
    for path in removed:
        os.unlink(path)
    folders = {os.path.dirname(name) for name in manifest}
    parents = {"/".join(name.split("/")[: depth + 1]) for name in folders for depth in range(name.count("/") + 1)} - {""}
    for folder in sorted(parents, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(work, folder))
    return removed


def check_relative(name: str) -> str:
    """Return the path when it stays below the directory it is joined to, else raise MusterError."""
    if os.path.isabs(name) or ".." in name.split("/") or name in ("", "."):
        raise MusterError("A copy lies below the working directory", "%r" % name)
    return name


def _put(path: str, content: IO[bytes], mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700 if mode & 0o100 else 0o600)
    with os.fdopen(fd, "wb") as file:
        for block in iter(lambda: content.read(_BLOCK), b""):
            file.write(block)
