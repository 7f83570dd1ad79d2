"""Keep, start or replace: the table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._decision import KEEP, REPLACE, START, decide
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._look import Sighting
from ansible_collections.muster.mlx.plugins.module_utils._specification import Specification

from tests.unit.make import INSTANCE, OLDER, intended, record, sighting, specification

WORKS = {INSTANCE: "/work", OLDER: "/older/work"}
RANK0 = specification()
RANK1 = specification(rank=1)
ALIVE0 = sighting()
ALIVE1 = sighting(record(rank=1, pid=200, pgid=200))
DEAD0 = sighting(members=0, alive=False)
ORPHANED0 = sighting(members=2, alive=False)  # its process is gone, children are not
OTHER0 = sighting(record(argv=("/usr/bin/python3", "other.py")))
DEAD_OTHER0 = sighting(record(argv=("/usr/bin/python3", "other.py")), members=0, alive=False)
OLD0 = sighting(record(instance=OLDER, cwd="/older/work"))
OLD1 = sighting(record(instance=OLDER, cwd="/older/work", rank=1, pid=200, pgid=200))
INTENDED0 = sighting(intended(), members=0, alive=False)


@pytest.mark.parametrize(
    ("wanted", "found", "replace", "action"),
    [
        pytest.param([RANK0], [], False, START, id="nothing there"),
        pytest.param([RANK0], [], True, START, id="nothing there, replace or not"),
        pytest.param([RANK0], [DEAD0], False, START, id="dead"),
        pytest.param([RANK0], [DEAD_OTHER0], False, START, id="dead, of another specification"),
        pytest.param([RANK0], [INTENDED0], False, START, id="never born"),
        pytest.param([RANK0], [ALIVE0], False, KEEP, id="alive as wanted"),
        pytest.param([RANK0], [ALIVE0], True, KEEP, id="alive as wanted, replace or not"),
        pytest.param([RANK0], [ALIVE0, DEAD_OTHER0], False, KEEP, id="alive as wanted, besides something dead"),
        pytest.param([RANK0, RANK1], [ALIVE0, ALIVE1], False, KEEP, id="both alive"),
        pytest.param([RANK1, RANK0], [ALIVE0, ALIVE1], False, KEEP, id="both alive, asked in another order"),
        pytest.param([RANK0, RANK1], [ALIVE0], False, REPLACE, id="one of two alive"),
        pytest.param([RANK0, RANK1], [DEAD0, ALIVE1], False, REPLACE, id="the first dead"),
        pytest.param([RANK0], [ORPHANED0], False, REPLACE, id="process gone, a child of it alive"),
        pytest.param([RANK0], [OTHER0], True, REPLACE, id="another specification, replace"),
        pytest.param([RANK0], [ALIVE0, ALIVE1], True, REPLACE, id="a rank too many, replace"),
        pytest.param([RANK0, RANK1], [ALIVE0, OLD1], False, REPLACE, id="ranks of two instances"),
        pytest.param([RANK0], [ALIVE0, OLD0], False, REPLACE, id="the same rank twice"),
    ],
)
def test_decide(wanted: Sequence[Specification], found: Sequence[Sighting], replace: bool, action: str) -> None:
    decision = decide(wanted, found, WORKS, replace)
    assert decision.action == action
    assert bool(decision.reason) == (action != KEEP)


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    [
        pytest.param([RANK0], [OTHER0], ["rank 0, program:"], id="another program"),
        pytest.param([RANK0], [ALIVE0, ALIVE1], ["rank 1: no longer wanted here"], id="a rank too many"),
        pytest.param([RANK1], [ALIVE0], ["rank 0: no longer wanted here"], id="another rank"),
        pytest.param(
            [specification(argv=("x",), size=3)],
            [ALIVE0],
            ["rank 0, program:", "rank 0, number of ranks:"],
            id="all of it",
        ),
        pytest.param(
            [specification(argv=("x",))], [ORPHANED0], ["rank 0, program:"], id="only a child lives, of another program"
        ),
    ],
)
def test_another_specification_is_an_error_that_says_what_differs(
    wanted: Sequence[Specification], found: Sequence[Sighting], words: list[str]
) -> None:
    with pytest.raises(MusterError, match="mlx_replace=true") as caught:
        decide(wanted, found, WORKS, False)
    assert len(caught.value.facts["differences"]) == len(words)
    for word, said in zip(words, caught.value.facts["differences"], strict=True):
        assert said.startswith(word)
        assert said in str(caught.value)
    assert decide(wanted, found, WORKS, True).reason == "; ".join(caught.value.facts["differences"])


def test_the_reason_names_the_rank_that_is_missing() -> None:
    assert "rank 1 is not running" in decide([RANK0, RANK1], [ALIVE0], WORKS, False).reason


def test_the_reason_names_two_living_instances() -> None:
    reason = decide([RANK0], [ALIVE0, OLD0], WORKS, False).reason
    assert "rank  is" not in reason
