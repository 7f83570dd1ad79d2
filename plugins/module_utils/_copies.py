# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of the controller's files in a run's working directory: told apart by hash, removed if still ours."""

from __future__ import annotations

import contextlib
import hashlib
import os
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
    parents = {"/".join(name.split("/")[: depth + 1]) for name in folders for depth in range(name.count("/") + 1)} - {
        ""
    }
    for folder in sorted(parents, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(work, folder))
    return removed
