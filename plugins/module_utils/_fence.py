# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fence: a teardown's mark on a run, so that a launch issued before it cannot start anything after it."""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict, dataclass

from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import Places
from ansible_collections.muster.mlx.plugins.module_utils._state_dir import make_private, read_json, write_json


@dataclass(frozen=True)
class Fence:
    """The mark. `token` is new with each teardown and empty where there never was one.

    `issued` is the teardown's time of issue by its controller's clock, `written` the time of the mark by
    the node's; both in epoch seconds.
    """

    token: str = ""
    issued: float = 0.0
    written: float = 0.0


def read_fence(places: Places, run: str) -> Fence:
    """Return the run's fence.

    Raises MusterError when the file cannot be believed: no launch may pass a fence it cannot read.
    """
    path = places.fence(run)
    try:
        data = read_json(path)
        return Fence(str(data["token"]), float(data["issued"]), float(data["written"]))
    except FileNotFoundError:
        return Fence()
    except (ValueError, TypeError, KeyError) as error:
        raise MusterError(
            f"{path} should hold the fence of run {run}", str(error), "Run teardown.yml, which writes it anew"
        ) from error


def raise_fence(places: Places, run: str, issued: float, now: float) -> Fence:
    """Leave the mark of a teardown."""
    fence = Fence(uuid.uuid4().hex, issued, now)
    make_private(places, os.path.dirname(places.fence(run)))
    write_json(places.fence(run), asdict(fence))
    return fence


def passed_since(fence: Fence, seen: str | None, issued: float) -> bool:
    """Tell whether a teardown came after a launch that saw the token `seen`, or saw none and was `issued` then.

    The token needs no clock; the time of issue is only comparable where one controller made both.
    """
    if seen is not None:
        return fence.token != seen
    return bool(fence.token) and fence.issued >= issued
