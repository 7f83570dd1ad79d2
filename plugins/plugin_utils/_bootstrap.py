# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one of Muster's modules on a node from what came on standard input, without AnsibleModule.

This file's text goes first, then a call of `serve`. It imports only the standard library of Python 3.9.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

PACKAGE = "ansible_collections.muster.mlx.plugins.module_utils"
MARK = "muster-answer:"


class Sources:
    """Imports Muster's module_utils from texts, the packages above them empty."""

    def __init__(self, texts: dict[str, str]) -> None:
        """Keep the texts, by the last part of each module's name."""
        self.texts = texts

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Tell the import system which modules are here."""
        package, dummy, last = name.rpartition(".")
        if package == PACKAGE and last in self.texts:
            return spec_from_loader(name, self)  # type: ignore[arg-type]
        if (PACKAGE + ".").startswith(name + "."):
            return spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: object) -> None:
        """Leave it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's text."""
        text = self.get_source(module.__name__)
        if text is not None:
            exec(compile(text, module.__name__, "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name: str) -> str | None:
        """Return a module's text, also for the start of a rank, which sends the supervisor's."""
        return self.texts.get(name.rpartition(".")[2])


def run_command(argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
    """Run an argument list as it is and return (exit code, stdout, stderr)."""
    import subprocess  # most calls need none

    done = subprocess.run(
        argv, env={**os.environ, **environment}, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def serve(texts: dict[str, str], entry: str, params: str, check: bool) -> None:
    """Make a module's one call and print its result as one marked line, since a login may print around it."""
    sys.meta_path.insert(0, Sources(texts))
    from ansible_collections.muster.mlx.plugins.module_utils import _errors

    try:
        call = import_module(f"{PACKAGE}._{entry}").call
        result = call(json.loads(params), check, run_command)
    except (_errors.MusterError, OSError) as error:
        result = _errors.failure(error)
    print("\n" + MARK + json.dumps(result), flush=True)
    # Nothing is left to be done, and tidying up an interpreter takes a tenth of the whole call.
    os._exit(0)
