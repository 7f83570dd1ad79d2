# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one family of errors that Muster raises below its modules."""

from __future__ import annotations

from typing import Any


class MusterError(Exception):
    """A refusal or a failure that a person can act on.

    The message says what was wanted, what was found and what to do. `facts` are plain values
    that the module returns beside the message, for machines.
    """

    def __init__(self, wanted: str, found: str, do: str = "", **facts: Any) -> None:
        """Join the three parts into one sentence each."""
        self.wanted = wanted
        self.found = found
        self.do = do
        self.facts = facts
        parts = [_sentence(part) for part in (wanted, found, do)]
        super().__init__(" ".join(part for part in parts if part).replace(" \n", "\n"))


def _sentence(text: str) -> str:
    text = text.strip(" ")
    if not text.strip():
        return ""
    # A variable, a path or a command keeps its spelling at the start of a sentence.
    word = text.split(" ", 1)[0].rstrip("'s,:")
    first = text[0].upper() if word.isalpha() else text[0]
    whole = "\n" in text or text[-1] in ".!?:"
    return first + text[1:] + ("" if whole else ".")


def failure(error: MusterError | OSError) -> dict[str, Any]:
    """Return the module result that an error becomes."""
    if isinstance(error, MusterError):
        return {"failed": True, "changed": False, "msg": str(error), **error.facts}
    return {"failed": True, "changed": False, "msg": f"The node refuses a file operation: {error}."}
