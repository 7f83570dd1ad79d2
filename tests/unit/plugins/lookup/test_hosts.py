"""The lookup `hosts`: the inventory's own patterns, and no empty selection."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible_collections.muster.mlx.plugins.lookup.hosts import LookupModule

GROUPS = {"all": ["mac3", "mac1", "mac2"], "mlx": ["mac3", "mac1"], "fast": ["mac1", "mac2"], "ungrouped": []}


class Templar:
    """Has nothing to resolve here."""

    def template(self, value: Any) -> Any:
        """Return it."""
        return value


def hosts(limit: str | None = None, groups: dict[str, list[str]] | None = None, **given: Any) -> list[str]:
    variables: dict[str, Any] = {"groups": GROUPS if groups is None else groups, **given}
    if limit:
        variables["ansible_limit"] = limit
    return LookupModule(loader=DataLoader(), templar=Templar()).run([], variables)


@pytest.mark.parametrize(
    ("given", "limit", "found"),
    [
        ({}, None, ["mac3", "mac1"]),
        ({"mlx_hosts": "fast"}, None, ["mac1", "mac2"]),
        ({"mlx_hosts": ["mac2", "mac3"]}, None, ["mac2", "mac3"]),
        ({"mlx_hosts": "all:!mac1"}, None, ["mac3", "mac2"]),
        ({"mlx_hosts": "mlx:&fast"}, None, ["mac1"]),
        ({"mlx_hosts": "mlx[0]"}, None, ["mac3"]),
        ({"mlx_hosts": "all[0:1]"}, None, ["mac3", "mac1"]),
        ({}, "mac1", ["mac1"]),
        ({}, "fast", ["mac1"]),
        ({"mlx_hosts": "all"}, "all:!mac3", ["mac1", "mac2"]),
    ],
)
def test_selection(given: dict[str, Any], limit: str | None, found: list[str]) -> None:
    assert hosts(limit, **given) == found


@pytest.mark.parametrize("groups", [{}, GROUPS])
def test_localhost_needs_no_inventory(groups: dict[str, list[str]]) -> None:
    assert hosts(groups=groups, mlx_hosts="localhost") == ["localhost"]


@pytest.mark.parametrize(
    ("given", "limit", "words"),
    [
        ({"mlx_hosts": "mac9"}, None, "the inventory has no mac9"),
        ({"mlx_hosts": "mac9*"}, None, "is empty"),
        ({"groups": {"all": [], "ungrouped": []}}, None, "no mlx"),
        ({"groups": {"all": ["a"], "mlx": []}}, None, "mlx is empty"),
        ({}, "mac2", "--limit mac2 leaves none of mac3, mac1"),
    ],
)
def test_no_selection_is_an_error(given: dict[str, Any], limit: str | None, words: str) -> None:
    with pytest.raises(AnsibleLookupError, match=f"(?i){words}"):
        hosts(limit, **given)
