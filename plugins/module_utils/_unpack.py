# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bringing the controller's files into a run's working directory."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping
from typing import IO

from ansible_collections.muster.mlx.plugins.module_utils._copies import altered
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError

_BLOCK = 1024 * 1024


def unpack(archive: str, staging: str, work: str, manifest: Mapping[str, str]) -> None:
    """Put the archive's files below the working directory, each whole or not at all, by way of `staging`.

    Only what the manifest names is taken, as regular files, and each is read back and compared:
    raises MusterError when one is missing or has other bytes.
    """
    os.mkdir(staging, 0o700)
    try:
        with tarfile.open(archive) as tar:
            for number, member in enumerate(tar):
                _take(tar, member, os.path.join(staging, str(number)), work, manifest)
    except (tarfile.TarError, EOFError) as error:
        raise MusterError(
            "The archive of mlx_files should come over whole", f"it cannot be read: {error}", "Launch again"
        ) from error
    os.rmdir(staging)
    wrong = altered(work, manifest)
    if wrong:
        raise MusterError(
            f"Every copy of mlx_files in {work} has the controller's bytes",
            "{}".format(", ".join("{} is {}".format(*pair) for pair in wrong.items())),
            "Look at the node's disk and launch again",
        )


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, staged: str, work: str, manifest: Mapping[str, str]) -> None:
    if member.name not in manifest or not member.isreg():
        raise MusterError(
            "The archive of mlx_files should hold what the launch announced", f"it also holds {member.name!r}"
        )
    content = tar.extractfile(member)
    if content is not None:
        _put(staged, content, member.mode)
        target = os.path.join(work, check_relative(member.name))
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        os.rename(staged, target)


def check_relative(name: str) -> str:
    """Return the path when it stays below the directory it is joined to, else raise MusterError."""
    if os.path.isabs(name) or ".." in name.split("/") or name in ("", "."):
        raise MusterError("A copy lies below the working directory", f"{name!r}")
    return name


def _put(path: str, content: IO[bytes], mode: int) -> None:
    fd = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700 if mode & 0o100 else 0o600
    )
    with os.fdopen(fd, "wb") as file:
        for block in iter(lambda: content.read(_BLOCK), b""):
            file.write(block)
