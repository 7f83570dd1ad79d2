"""Standing down, the decision: how long to wait, and what comes then."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._stand_down import Policy, Progress, next_move

from tests.unit.make import record

NEVER = float("-inf")
LAZY = Policy(grace=5, grace_max=20)  # SIGTERM, SIGKILL
POLITE = Policy((signal.SIGINT, signal.SIGTERM), 5, 20)  # SIGINT, SIGTERM, SIGKILL
PATIENT = Policy(grace=30, grace_max=180)
GENTLE = Policy(grace=5, grace_max=20, escalate=False)


@pytest.mark.parametrize(
    ("policy", "step", "stepped", "fell", "now", "move"),
    [
        pytest.param(LAZY, -1, 0, NEVER, 0, "signal", id="first signal at once"),
        pytest.param(LAZY, 0, 0, NEVER, 4.99, "wait", id="grace"),
        pytest.param(LAZY, 0, 0, NEVER, 5, "signal", id="grace over"),
        pytest.param(LAZY, 0, 0, 4, 5, "wait", id="memory falls"),
        pytest.param(LAZY, 0, 0, 4, 9, "signal", id="memory fell long ago"),
        pytest.param(LAZY, 0, 0, 19.9, 20, "signal", id="memory falls, the maximum is over"),
        pytest.param(LAZY, 0, 10, NEVER, 14, "wait", id="grace counts from the last signal"),
        pytest.param(LAZY, 1, 5, NEVER, 9.9, "wait", id="a moment for SIGKILL"),
        pytest.param(LAZY, 1, 5, NEVER, 10, "leave", id="not even SIGKILL"),
        pytest.param(LAZY, 1, 5, 9.9, 10, "leave", id="SIGKILL is not prolonged"),
        pytest.param(POLITE, 0, 0, NEVER, 5, "signal", id="second of three"),
        pytest.param(POLITE, 1, 5, NEVER, 10, "signal", id="third of three"),
        pytest.param(POLITE, 2, 10, NEVER, 15, "leave", id="after the third"),
        pytest.param(GENTLE, 0, 0, NEVER, 4, "wait", id="no escalation, grace"),
        pytest.param(GENTLE, 0, 0, NEVER, 5, "leave", id="no escalation, grace over"),
        pytest.param(GENTLE, 0, 0, 4.5, 5, "wait", id="no escalation, memory falls"),
        pytest.param(PATIENT, 0, 0, 25, 34.9, "wait", id="long grace, memory fell 9.9 s ago"),
        pytest.param(PATIENT, 0, 0, 25, 35, "signal", id="long grace, memory fell 10 s ago"),
        pytest.param(
            Policy(grace=30, grace_max=10), 0, 0, 19, 20, "wait", id="a maximum below the grace shortens nothing"
        ),
        pytest.param(Policy(grace=0, grace_max=0), 0, 0, NEVER, 0, "signal", id="no grace at all"),
    ],
)
def test_next_move(policy: Policy, step: int, stepped: float, fell: float, now: float, move: str) -> None:
    one = Progress(record(), "running", 0.0, step=step, stepped=stepped, fell=fell)
    assert next_move(one, policy, now) == move


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, (signal.SIGTERM, signal.SIGKILL)),
        ({"escalate": False}, (signal.SIGTERM,)),
        ({"signals": (signal.SIGINT, signal.SIGTERM)}, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)),
        ({"signals": ()}, (signal.SIGKILL,)),
    ],
)
def test_steps(options: dict[str, Any], steps: tuple[int, ...]) -> None:
    assert Policy(**options).steps == steps
