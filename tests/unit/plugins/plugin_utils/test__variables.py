"""The user's variables, host by host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.muster.mlx.plugins.plugin_utils._variables import launch_options, of_host


class Templar:
    """Resolves `{{ x }}` by name, as far as these tests need it."""

    def template(self, value: Any) -> Any:
        """Return what a value stands for."""
        return {"{{ port }}": 5}.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("host_b", "play", "found"),
    [
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param({"mlx_slots": 2, "other": 1}, {}, {"mlx_slots": 2}, id="the host's own"),
        pytest.param({"mlx_slots": 2}, {"mlx_run": "x"}, {"mlx_slots": 2, "mlx_run": "x"}, id="one of the play"),
        pytest.param({}, {"mlx_starting_port": "{{ port }}"}, {"mlx_starting_port": 5}, id="templated"),
        pytest.param({"mlx_slots": 2}, {"mlx_slots": 1}, {"mlx_slots": 2}, id="mine is not everybody's"),
        pytest.param({"mlx_slots": 2}, {"mlx_slots": 7}, {"mlx_slots": 7}, id="the play's own over a host's"),
    ],
)
def test_of_host(host_b: dict[str, Any], play: dict[str, Any], found: dict[str, Any]) -> None:
    variables = {"inventory_hostname": "a", "hostvars": {"a": {"mlx_slots": 1}, "b": host_b}, "mlx_slots": 1, **play}
    assert of_host("b", variables, Templar()) == found


def test_the_options_are_those_of_the_playbook() -> None:
    options = launch_options(DataLoader())
    assert options["mlx_starting_port"]["default"] == 32323
    assert options["mlx_secret_env"]["no_log"] is True
    assert all(name.startswith("mlx_") for name in options)
