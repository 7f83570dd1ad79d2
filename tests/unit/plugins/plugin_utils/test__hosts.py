"""Which hosts a playbook acts on."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.plugin_utils._hosts import check_selection, pattern_of, unmatched

NAMES = ["mlx", "all", "ungrouped", "mac1", "mac2", "10.0.0.1"]


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        (None, ["mlx"]),
        ("", ["mlx"]),
        ("mac1", ["mac1"]),
        ("mac1,mac2", ["mac1", "mac2"]),
        ("mac1, mac2 ,", ["mac1", "mac2"]),
        ("mlx:!mac1:&fast", ["mlx", "!mac1", "&fast"]),
        (["mac1", "mac2"], ["mac1", "mac2"]),
        (["mac1", 7, " "], ["mac1", "7"]),
        ("mac*", ["mac*"]),
        ("mlx[0:1]", ["mlx[0:1]"]),
        ("~mac(1|2)[0-9]", ["~mac(1|2)[0-9]"]),
    ],
)
def test_pattern_of(value: Any, pattern: list[str]) -> None:
    assert pattern_of(value) == pattern


@pytest.mark.parametrize(
    ("pattern", "unknown"),
    [
        (["mlx"], []),
        (["mac1", "!mac2", "&ungrouped"], []),
        (["all", "*"], []),
        (["mac*", "mac?", "mac[0:1]", "~mac.*"], []),
        (["mac3"], ["mac3"]),
        (["mac1", "!mac3", "&slow"], ["mac3", "slow"]),
        (["Mac1"], ["Mac1"]),
    ],
)
def test_unmatched(pattern: list[str], unknown: list[str]) -> None:
    assert unmatched(pattern, NAMES) == unknown


@pytest.mark.parametrize(
    ("pattern", "selected", "within", "left"),
    [
        (["mlx"], ["mac2", "mac1"], {"mac1", "mac2"}, ["mac2", "mac1"]),
        (["mlx"], ["mac2", "mac1"], {"mac1", "x"}, ["mac1"]),
        (["localhost"], ["localhost"], {"localhost"}, ["localhost"]),
    ],
)
def test_check_selection(pattern: list[str], selected: list[str], within: set[str], left: list[str]) -> None:
    assert check_selection(pattern, selected, within, "all", NAMES) == left


@pytest.mark.parametrize(
    ("pattern", "selected", "within", "words"),
    [
        pytest.param(["mac3"], [], set(), "the inventory has no mac3", id="unknown name"),
        pytest.param(
            ["mac1", "mac3"], ["mac1"], {"mac1"}, "the inventory has no mac3", id="unknown name besides others"
        ),
        pytest.param(["!mac3"], ["mac1"], {"mac1"}, "the inventory has no mac3", id="unknown exclusion"),
        pytest.param(["mlx"], [], {"mac1"}, "mlx is empty", id="empty group"),
        pytest.param(["mac9*"], [], {"mac1"}, "mac9\\* is empty", id="pattern that matches nobody"),
        pytest.param(["mlx"], ["mac1", "mac2"], {"10.0.0.1"}, "--limit fast leaves none of mac1, mac2", id="limit"),
    ],
)
def test_check_selection_refuses(pattern: list[str], selected: list[str], within: set[str], words: str) -> None:
    with pytest.raises(MusterError, match=f"(?i){words}"):
        check_selection(pattern, selected, within, "fast", NAMES)
