# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a module meets its node by way of AnsibleModule: how commands run, how errors leave the module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError, failure
from ansible_collections.muster.mlx.plugins.module_utils._system import Run

Entry = Callable[[Mapping[str, Any], bool, Run], "dict[str, Any]"]


def runner(module: AnsibleModule) -> Run:
    """Return a function that runs an argument list as it is: no shell, nothing expanded."""

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


def finish(module: AnsibleModule, entry: Entry) -> None:
    """Make the module's one call and leave: with its result, or with the error it raised."""
    try:
        result = entry(module.params, module.check_mode, runner(module))
    except (MusterError, OSError) as error:
        result = failure(error)
        module.fail_json(**{name: value for name, value in result.items() if name != "failed"})
    module.exit_json(**result)
