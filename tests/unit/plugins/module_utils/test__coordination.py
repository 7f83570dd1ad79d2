"""What the ranks are told, compared with what `mlx.launch` itself would send."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._coordination import (
    next_addresses,
    rank_environment,
    ring_addresses,
    ring_document,
)
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError

from tests.unit.make import MARK, RING


@pytest.mark.parametrize(
    ("ips", "port", "connections", "expected"),
    [
        ([["10.0.0.1"]], 32323, 1, [["10.0.0.1:32323"]]),
        ([["10.0.0.1"], ["10.0.0.2"]], 32323, 1, [["10.0.0.1:32323"], ["10.0.0.2:32324"]]),
        ([["a", "b"], ["c"]], 5, 2, [["a:5", "a:6", "b:7", "b:8"], ["c:9", "c:10"]]),
        ([["a"], ["a"]], 65534, 1, [["a:65534"], ["a:65535"]]),
        ([], 5, 1, []),
    ],
)
def test_ring_addresses(ips: list[list[str]], port: int, connections: int, expected: list[list[str]]) -> None:
    assert ring_addresses(ips, port, connections) == expected


@pytest.mark.parametrize(("port", "ranks"), [(65535, 2), (65530, 7), (70000, 1)])
def test_ports_past_the_last_are_refused(port: int, ranks: int) -> None:
    with pytest.raises(MusterError, match=f"mlx_starting_port {port} and {ranks} ports end at {port + ranks - 1}"):
        ring_addresses([["10.0.0.1"]] * ranks, port, 1)


def what_mlx_sends(
    monkeypatch: pytest.MonkeyPatch, ips: Sequence[Sequence[str]], port: int, connections: int
) -> list[dict[str, str]]:
    """Let the real launch_ring compose a launch, and return the files that it would put on each host."""
    launch = pytest.importorskip("mlx._distributed_utils.launch", reason="MLX is not installed here")
    host = importlib.import_module("mlx._distributed_utils.common").Host
    sent: list[Any] = []
    monkeypatch.setattr(launch, "_launch_with_io", lambda kind, arguments, verbose: sent.extend(arguments))
    args = SimpleNamespace(
        starting_port=port, connections_per_ip=connections, env=[], verbose=False, cwd=None, python="python3"
    )
    hosts = [host(rank, f"mac{rank}", list(row), []) for rank, row in enumerate(ips)]
    launch.launch_ring(argparse.ArgumentParser(), hosts, args, ["train.py"])
    assert [arguments[0] for arguments, _options in sent] == list(range(len(ips)))
    return [arguments[4] for arguments, _options in sent]


@pytest.mark.parametrize("connections", [1, 2, 3])
@pytest.mark.parametrize("port", [32323, 1024])
@pytest.mark.parametrize(
    "ips",
    [
        [["10.0.0.1"], ["10.0.0.2"]],
        [["10.0.0.1"], ["10.0.0.2"], ["10.0.0.3"], ["10.0.0.4"]],
        [["10.0.0.1", "10.1.0.1"], ["10.0.0.2"]],
        [["10.0.0.1", "10.1.0.1", "10.2.0.1"], ["10.0.0.2", "10.1.0.2", "10.2.0.2"]],
        [["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"]],
    ],
)
def test_numbering_is_that_of_mlx_launch(
    monkeypatch: pytest.MonkeyPatch, ips: list[list[str]], port: int, connections: int
) -> None:
    ours = ring_addresses(ips, port, connections)
    for files in what_mlx_sends(monkeypatch, ips, port, connections):
        assert list(files) == ["MLX_HOSTFILE"]
        assert json.loads(files["MLX_HOSTFILE"]) == ours
        assert json.loads(ring_document(ours)) == ours


def test_a_single_rank_gets_no_file_as_with_mlx_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert what_mlx_sends(monkeypatch, [["10.0.0.1"]], 32323, 1) == [{"MLX_HOSTFILE": ""}]
    assert "MLX_HOSTFILE" not in rank_environment({}, 0, MARK, None, {})


@pytest.mark.parametrize(
    ("hosts", "rank", "expected"),
    [
        (RING, 0, ("10.0.0.2:32324",)),
        (RING, 1, ("10.0.0.1:32323",)),
        ((("a:1", "b:2"), ("c:3", "d:4"), ("e:5", "f:6")), 2, ("a:1", "b:2")),
        ((("a:1",),), 0, ()),
        ((), 0, ()),
    ],
)
def test_next_addresses(hosts: tuple[tuple[str, ...], ...], rank: int, expected: tuple[str, ...]) -> None:
    assert next_addresses(hosts, rank) == expected


LOGIN = {
    "HOME": "/home/me",
    "PATH": "/opt/bin:/bin",
    "LC_CTYPE": "C.UTF-8",
    "MLX_RANK": "7",
    "JACCL_RING": "1",
    "FOO": "x",
}
OWN = {"PYTHONUNBUFFERED": "1", "MLX_RANK": "3", "MUSTER_RANK": MARK, "MLX_HOSTFILE": "/hosts.json"}


@pytest.mark.parametrize(
    ("login", "wanted", "expected"),
    [
        pytest.param(
            LOGIN,
            {},
            {"HOME": "/home/me", "PATH": "/opt/bin:/bin", "LC_CTYPE": "C.UTF-8", **OWN},
            id="of the login a few",
        ),
        pytest.param(
            {}, {}, {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **OWN}, id="a path where there is none"
        ),
        pytest.param({"PATH": "/a"}, {"PATH": "/b"}, {**OWN, "PATH": "/b"}, id="the user's word wins"),
        pytest.param(
            {"PATH": "/a"}, {"PYTHONUNBUFFERED": "0"}, {**OWN, "PATH": "/a", "PYTHONUNBUFFERED": "0"}, id="also here"
        ),
        pytest.param(
            {"PATH": "/a"},
            {"MLX_RANK": "9", "MLX_HOSTFILE": "/x", "MUSTER_RANK": "x"},
            {**OWN, "PATH": "/a"},
            id="but not over Muster's own",
        ),
        pytest.param(
            {"PATH": "/a"},
            {"MLX_METAL_FAST_SYNCH": "1"},
            {**OWN, "PATH": "/a", "MLX_METAL_FAST_SYNCH": "1"},
            id="other names of MLX are the user's",
        ),
        pytest.param(
            {"PATH": "/a", "LCX": "1", "LANGUAGE": "de"}, {}, {**OWN, "PATH": "/a"}, id="names that start alike"
        ),
    ],
)
def test_rank_environment(login: Mapping[str, str], wanted: Mapping[str, str], expected: Mapping[str, str]) -> None:
    assert rank_environment(login, 3, MARK, "/hosts.json", wanted) == expected
