"""The action decide, run as a task runs it: what it makes of the nodes' answers, and when."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.muster.mlx.plugins.action import decide

from tests.unit.plugins.plugin_utils.test__plan import plan

ISSUED = 1_000_000.0


class Templar:
    """Has nothing to resolve here."""

    def template(self, value: Any) -> Any:
        """Return it."""
        return value


def seen(**changes: Any) -> dict[str, Any]:
    """What a node's preflight returned."""
    facts: dict[str, Any] = {
        "python": "/usr/bin/python3",
        "mlx_version": "0.32.4",
        "state_dir": "/state",
        "fence": "",
        "fence_age": None,
        "answered": ISSUED + 1,
        "records": [],
        "altered": [],
    }
    return {**facts, **changes}


def run(monkeypatch: pytest.MonkeyPatch, now: float, **nodes: dict[str, Any]) -> dict[str, Any]:
    """Run the task at this time of the controller's clock."""
    monkeypatch.setattr(time, "time", lambda: now)
    request = {**plan(hosts="".join(nodes)), "issued": ISSUED}
    for node in request["nodes"].values():
        node["what"]["files"] = {}
    task = SimpleNamespace(
        args={"plan": request, "seen": "muster_seen"}, async_val=0, action="decide", check_mode=False
    )
    hostvars = {host: {"muster_seen": {"boot": host, **facts}} for host, facts in nodes.items()}
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    action = decide.ActionModule(task, connection, SimpleNamespace(check_mode=False), None, Templar(), None)
    return dict(action.run(task_vars={"inventory_hostname": "a", "hostvars": hostvars}))


def test_nothing_anywhere_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, ISSUED + 3, a=seen(), b=seen())
    assert (result["changed"], result["action"]) == (False, "start")


def test_versions_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleActionFail, match=r"b has 0\.31"):
        run(monkeypatch, ISSUED + 3, a=seen(), b=seen(mlx_version="0.31"))


def test_a_teardown_that_passed_since_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issued at 0, torn down at 1, looked at at 2, decided at 3."""
    with pytest.raises(AnsibleActionFail, match=r"(?i)a teardown of it passed on b"):
        run(monkeypatch, ISSUED + 3, a=seen(), b=seen(fence="x", fence_age=0.9))


def test_a_teardown_long_ago_is_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, ISSUED + 3, a=seen(), b=seen(fence="x", fence_age=60.0))["action"] == "start"


def test_a_teardown_right_before_is_none_of_it_however_long_the_look_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torn down at -2, issued at 0, looked at at 1 (age 3), then mlx is imported for the first time, decided at 9."""
    assert run(monkeypatch, ISSUED + 9, a=seen(fence="x", fence_age=3.0), b=seen())["action"] == "start"
