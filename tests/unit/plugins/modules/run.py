"""Running a module's main() in this process, as Ansible does it on a node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args


class Ran:
    """Calls main() with options, and returns what the module printed; `_ansible_check_mode` is one of the options."""

    def __init__(self, main: Callable[[], None], capsys: pytest.CaptureFixture[str], state_dir: str) -> None:
        """Keep what each call needs."""
        self._main, self._capsys, self._state_dir = main, capsys, state_dir

    def __call__(self, *, check: bool = False, **options: Any) -> dict[str, Any]:
        """Run it; whoever exits with an error has to say so in the result."""
        given = {"state_dir": self._state_dir, "_ansible_check_mode": check, **options}
        with patch_module_args(given), pytest.raises(SystemExit) as ended:
            self._main()
        result: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        assert not ended.value.code or result["failed"] is True
        return result
