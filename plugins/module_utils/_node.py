# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place where a module meets its node: which System it is, how commands run, how errors leave the module."""

from __future__ import annotations

import os
import platform
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._linux import LinuxSystem
from ansible_collections.muster.mlx.plugins.module_utils._macos import MacSystem, Run
from ansible_collections.muster.mlx.plugins.module_utils._process import System


def runner(module: AnsibleModule) -> Run:
    """Return a function that runs an argument list as it is: no shell, nothing expanded, English output."""

    def run(argv: list[str], environment: dict[str, str], cwd: str | None = None) -> tuple[int, str, str]:
        code, out, err = module.run_command(
            argv,
            environ_update=environment,
            expand_user_and_vars=False,
            ignore_invalid_cwd=False,
            handle_exceptions=False,
            cwd=cwd,
        )
        return code, out, err

    return run


def this_system(run: Run) -> System:
    """Return the door to this node; raise MusterError on a system that Muster does not know."""
    name = platform.system()
    if name == "Linux":
        return LinuxSystem()
    if name == "Darwin":
        return MacSystem(run)
    raise MusterError("A node runs macOS or Linux", "this one runs %s" % (name or "something unknown"))


def finish(module: AnsibleModule, call: Callable[[], dict[str, Any]]) -> None:
    """Make the module's one call and leave: with its result, or with the error it raised."""
    try:
        result = call()
    except MusterError as error:
        module.fail_json(msg=str(error), **error.facts)
    except OSError as error:
        module.fail_json(msg="The node refuses a file operation: %s" % error, errno=error.errno)
    module.exit_json(**result)


def login_environment() -> dict[str, str]:
    """Return what the login gave this process."""
    return dict(os.environ)
