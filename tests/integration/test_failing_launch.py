"""A launch that cannot come up: it fails at once, says which rank, how and its last words, and leaves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Outcome, Playbooks

FAIL = str(PROGRAMS / "fail.py")


def assert_stood_down(outcome: Outcome, fabric: Fabric) -> None:
    """Nothing of the launch is left, and each node says so itself."""
    assert _nodes.left(fabric) == []
    assert [path for host in fabric.hosts for path in _nodes.unexpected(host)] == []
    assert {node: receipt["verdict"] for node, receipt in outcome.receipts.items()} == {
        host.name: "clean" for host in fabric.hosts
    }


def test_a_rank_that_exits_7_at_once_ends_the_launch_within_5_s(playbooks: Playbooks, fabric: Fabric) -> None:
    """The play names rank 2, its code and its last 20 lines; the other ranks do not wait for their timeout."""
    playbooks.status().ok()  # a connection to each node stands
    for _ in range(3):  # a busy machine may take long once, but a launch that waits for a timeout always does
        outcome = playbooks.launch(program=[FAIL, "2", "7", "25"]).failed("Rank 2 ", "exited 7")
        print(f"failed after {outcome.seconds:.2f} s")
        if outcome.seconds < 5:
            break
    assert outcome.seconds < 5
    assert outcome.by_host("Start the ranks", "failed")["h3"]["failures"][0]["last_lines"] == [
        f"line {number} of rank 2" for number in range(6, 26)
    ]
    said = re.findall(r"^line (\d+) of rank 2\b", outcome.text.split("The launch of run main failed.")[1], re.MULTILINE)
    assert said == [str(number) for number in range(6, 26)]
    # A peer may end by itself when rank 2 is gone, but then it is named after it.
    assert re.search(r"The launch of run main failed\.\n+h3: Rank 2 ", outcome.text)
    assert_stood_down(outcome, fabric)


def test_a_group_that_never_forms_ends_at_its_deadline(playbooks: Playbooks, fabric: Fabric) -> None:
    """One rank does not join: when mlx_ready_timeout is over the launch says what it waited for, on which rank."""
    outcome = playbooks.launch(program=[str(PROGRAMS / "absent.py"), "1"], mlx_ready_timeout=3)
    outcome.failed("mlx_ready_timeout (3 s)", "connected to the next rank")
    print(f"failed after {outcome.seconds:.2f} s")
    assert 3 < outcome.seconds < 9
    assert re.search(r"\bRank [01] should be up", outcome.text)
    assert_stood_down(outcome, fabric)


@pytest.mark.parametrize(
    ("culprit", "text", "mode", "words"),
    [
        ("h3", "#!/no/such/interpreter\n", 0o755, ("Rank 2 ", "Cannot run /opt/rank")),
        ("h4", "#!/no/such/interpreter\n", 0o755, ("Rank 3 ", "Cannot run /opt/rank")),
        ("h3", "#!/bin/sh\nexec sleep 600\n", 0o644, ("mlx_command /opt/rank cannot be run",)),
    ],
    ids=["its interpreter is missing", "the last one's interpreter is missing", "it is not executable"],
)
def test_a_program_that_cannot_be_run(
    playbooks: Playbooks,
    fabric: Fabric,
    put: Callable[..., str],
    culprit: str,
    text: str,
    mode: int,
    words: tuple[str, ...],
) -> None:
    """One node's copy of the program cannot be executed: rank and reason are named, the others are stood down."""
    for host in fabric.hosts:
        put(host, "/opt/rank", "#!/bin/sh\nexec sleep 600\n", 0o755)
    put(fabric[culprit], "/opt/rank", text, mode)
    outcome = playbooks.launch(mlx_command=["/opt/rank"], mlx_ready="process").failed(*words)
    assert next(one.host for one in outcome.results if one.status == "failed") == culprit
    assert _nodes.left(fabric) == []


def test_a_rank_that_dies_later_is_seen_before_the_group_is_up(playbooks: Playbooks, fabric: Fabric) -> None:
    """A rank that was killed while the launch waits for another ends the wait at once and is named with its signal."""
    launch = playbooks.start("launch", program=[str(PROGRAMS / "absent.py"), "1"], mlx_ready_timeout=60)
    victim = _nodes.eventually(
        lambda: "thinking" in "".join(log_of(fabric, "h2")) and _nodes.ranks(fabric["h2"]), "rank 1"
    )[0]
    fabric["h2"].run(["kill", "-KILL", str(victim.pid)])
    outcome = launch.finish(30).failed("Rank 1 ", "killed by SIGKILL", "thinking")
    assert_stood_down(outcome, fabric)


def log_of(fabric: Fabric, host: str) -> list[str]:
    """What the ranks of a host have printed so far."""
    return [_nodes.read(fabric[host], path) for path in fabric[host].files("/root/.muster/runs/*/*/rank-*/log")]
