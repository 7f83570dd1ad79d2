"""Whether a run's ports are free: by what listens, and by what the records of other runs say."""

from __future__ import annotations

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._ports import check_ports, ports_taken
from ansible_collections.muster.mlx.plugins.module_utils._process import Listener
from ansible_collections.muster.mlx.plugins.module_utils._run import Places

from tests.unit.make import process, put, record, specification
from tests.unit.memory import MemorySystem

OURS = "10.0.0.1:32323"


@pytest.mark.parametrize(
    ("listener", "taken"),
    [
        pytest.param(
            Listener("10.0.0.1", 32323, 77, "nc"), [f"{OURS} is in use by process 77 (nc)"], id="the very same"
        ),
        pytest.param(
            Listener("0.0.0.0", 32323, 77, "nc"), [f"{OURS} is in use by process 77 (nc)"], id="all addresses"
        ),
        pytest.param(
            Listener("::", 32323, 77, "nc"), [f"{OURS} is in use by process 77 (nc)"], id="all of v6, so of v4"
        ),
        pytest.param(
            Listener("10.0.0.1", 32323, None, ""),
            [f"{OURS} is in use by a process of another user"],
            id="another user's",
        ),
        pytest.param(Listener("127.0.0.1", 32323, 77, "nc"), [], id="another address"),
        pytest.param(Listener("::1", 32323, 77, "nc"), [], id="another address of v6"),
        pytest.param(Listener("10.0.0.1", 32324, 77, "nc"), [], id="another port"),
    ],
)
def test_who_listens(places: Places, listener: Listener, taken: list[str]) -> None:
    node = MemorySystem(process(77))
    node.sockets = [listener]
    assert ports_taken(places, "main", [OURS], node) == taken


def test_a_living_rank_of_the_run_itself_does_not_count(places: Places) -> None:
    put(places, record())
    node = MemorySystem(process(), process(101, ppid=100))
    node.sockets = [Listener("10.0.0.1", 32323, 100, "python3"), Listener("0.0.0.0", 32323, 101, "python3")]
    assert ports_taken(places, "main", [OURS], node) == []


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        pytest.param([process()], [f"{OURS} belongs to rank 0 of run other"], id="lives, though it listens no more"),
        pytest.param([], [], id="ended"),
        pytest.param([process(start="9")], [], id="its pid is somebody else's now"),
    ],
)
def test_a_rank_of_another_run(places: Places, there: list, taken: list[str]) -> None:  # type: ignore[type-arg]
    put(places, record(run="other"))
    assert ports_taken(places, "main", [OURS, "10.0.0.1:5"], MemorySystem(*there)) == taken


def test_check_ports_names_them_all_and_says_what_to_do(places: Places) -> None:
    node = MemorySystem(process(77))
    node.sockets = [Listener("0.0.0.0", port, 77, "nc") for port in (32323, 32324)]
    wanted = [specification(), specification(rank=1)]
    with pytest.raises(MusterError, match=r"32323 is in use.*32324 is in use.*another mlx_starting_port"):
        check_ports(places, "main", wanted, node)
    node.sockets = []
    check_ports(places, "main", wanted, node)
