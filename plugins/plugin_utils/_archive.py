# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's files for a run: found, hashed, and put into one archive."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence

from ansible_collections.muster.mlx.plugins.module_utils._copies import sha256
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError


def collect(paths: Sequence[str], base: str) -> dict[str, str]:
    """Return what `mlx_files` stands for: path in the work folder → absolute path on the controller.

    A file keeps its name, a folder brings all files below it under its own name. Relative paths start at
    `base`. Raises MusterError for what is missing, is no file, or would land on the same name.
    """
    found: dict[str, str] = {}
    for path in paths:
        full = os.path.normpath(os.path.join(base, os.path.expanduser(path)))
        if not os.path.exists(full):
            raise MusterError("mlx_files names files and folders of the controller", f"{full} is not there")
        for name, source in _files(full):
            if found.setdefault(name, source) != source:
                raise MusterError(
                    "Each of mlx_files has its own name in the work folder",
                    f"{name} would come from {found[name]} and from {source}",
                )
    return found


def manifest(files: dict[str, str]) -> dict[str, str]:
    """Return path in the work folder → SHA-256."""
    hashes = {}
    for name, source in files.items():
        with open(source, "rb") as file:
            hashes[name] = sha256(file)
    return hashes


def size(files: dict[str, str]) -> int:
    """Return the bytes of all files."""
    return sum(os.path.getsize(source) for source in files.values())


def write_archive(files: dict[str, str], path: str) -> None:
    """Write a plain tar of the files, each under its name in the work folder."""
    with tarfile.open(path, "w", dereference=True) as tar:
        for name, source in files.items():
            tar.add(source, arcname=name, recursive=False)


def _files(full: str) -> Iterator[tuple[str, str]]:
    if not os.path.isdir(full):
        if not os.path.isfile(full):
            raise MusterError("mlx_files names files and folders", f"{full} is neither")
        yield os.path.basename(full), full
        return
    top = os.path.dirname(full)
    for folder, folders, names in os.walk(full):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            source = os.path.join(folder, name)
            if not os.path.isfile(source):
                raise MusterError(
                    "A folder of mlx_files holds files", f"{source} is none (a broken link, a socket, a pipe)"
                )
            yield os.path.relpath(source, top), source
