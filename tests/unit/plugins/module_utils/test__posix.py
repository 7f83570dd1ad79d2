"""Signals at the door of a real system: whom they may never reach, and what a refusal means."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._posix import PosixSystem


@pytest.mark.parametrize("target", [1, 0, -1, -4711])
@pytest.mark.parametrize("how", ["kill", "killpg"])
def test_init_the_own_group_and_everybody_are_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, how: str, target: int
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, how, lambda pid, number: sent.append(pid))
    with pytest.raises(MusterError, match=f"[Pp]id {target}\\."):
        getattr(PosixSystem(), how)(target, signal.SIGTERM)
    assert sent == []


@pytest.mark.parametrize("how", ["kill", "killpg"])
def test_a_refusal_names_the_process_and_what_to_do(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, how, refuse)
    with pytest.raises(MusterError, match=r"4711 .* signal 15.*Operation not permitted.*Run Muster as the user who"):
        getattr(PosixSystem(), how)(4711, signal.SIGTERM)


def test_clocks() -> None:
    node = PosixSystem()
    before = node.monotonic()
    node.sleep(0.01)
    assert node.monotonic() - before >= 0.01
    assert abs(node.now() - time.time()) < 5
