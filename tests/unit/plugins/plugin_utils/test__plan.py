"""The plan of a launch: how ranks are laid out, and every fault that is said before any node is touched."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import check_instance_name
from ansible_collections.muster.mlx.plugins.plugin_utils._plan import (
    lay_out,
    new_instance,
    of_node,
    raise_faults,
    unknown_variables,
    words_of,
)
from ansible_collections.muster.mlx.plugins.plugin_utils._variables import launch_options

SPEC = launch_options(DataLoader())
ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}


def variables(**given: Any) -> dict[str, Any]:
    """A host's variables as the playbook's own argument spec completes them."""
    values = {"mlx_program": ["train.py"], **given}
    checked = ArgumentSpecValidator(SPEC).validate({name: value for name, value in values.items() if value is not None})
    assert checked.error_messages == []
    return dict(checked.validated_parameters)


def plan(*, every: dict[str, Any] | None = None, hosts: str = "ab", **per_host: dict[str, Any]) -> dict[str, Any]:
    """Lay out hosts that share variables but for what is said per host."""
    wanted = {host: variables(**{**(every or {}), **per_host.get(host, {})}) for host in hosts}
    return lay_out(wanted, ADDRESSES)


@pytest.mark.parametrize(
    ("every", "hosts", "per_host", "ranks", "ring"),
    [
        pytest.param({}, "a", {}, {"a": [0]}, [["10.0.0.1:32323"]], id="one"),
        pytest.param({}, "ab", {}, {"a": [0], "b": [1]}, [["10.0.0.1:32323"], ["10.0.0.2:32324"]], id="two"),
        pytest.param(
            {}, "ba", {}, {"b": [0], "a": [1]}, [["10.0.0.2:32323"], ["10.0.0.1:32324"]], id="in the inventory's order"
        ),
        pytest.param(
            {"mlx_starting_port": 5},
            "ab",
            {"a": {"mlx_slots": 2}},
            {"a": [0, 1], "b": [2]},
            [["10.0.0.1:5"], ["10.0.0.1:6"], ["10.0.0.2:7"]],
            id="slots of a host together",
        ),
        pytest.param(
            {"mlx_starting_port": 5, "mlx_connections_per_ip": 2},
            "ab",
            {"a": {"mlx_ips": ["10.1.0.1", "10.2.0.1"]}, "b": {"mlx_ips": ["10.1.0.2", "10.2.0.2"]}},
            {"a": [0], "b": [1]},
            [
                ["10.1.0.1:5", "10.1.0.1:6", "10.2.0.1:7", "10.2.0.1:8"],
                ["10.1.0.2:9", "10.1.0.2:10", "10.2.0.2:11", "10.2.0.2:12"],
            ],
            id="several addresses and connections",
        ),
    ],
)
def test_lay_out(
    every: dict[str, Any],
    hosts: str,
    per_host: dict[str, dict[str, Any]],
    ranks: dict[str, list[int]],
    ring: list[list[str]],
) -> None:
    found = plan(every=every, hosts=hosts, **per_host)
    assert found["size"] == len(ring)
    assert {host: node["what"]["ranks"] for host, node in found["nodes"].items()} == ranks
    assert all(node["what"]["hosts"] == ring for node in found["nodes"].values())


def test_what_may_differ_from_host_to_host_stays_with_its_host() -> None:
    found = plan(
        a={"mlx_python": "/a/python", "mlx_cwd": "/a", "mlx_env": {"X": 1}, "mlx_state_dir": "/s"},
        b={"mlx_program": None, "mlx_command": ["run"], "mlx_grace": 5, "mlx_keep": 3},
    )
    first, second = (of_node(found, host, "where", "what", "stopping") for host in "ab")
    assert (first["python"], first["cwd"], first["env"], first["state_dir"]) == ("/a/python", "/a", {"X": "1"}, "/s")
    assert ("python" in second, "program" in second, second["command"]) == (False, False, ["run"])
    assert (second["grace"], second["keep"], first["grace"], first["keep"]) == (5.0, 3, 30.0, 10)
    assert set(of_node(found, "a", "where")) == {"run", "state_dir"}


FAULTS = [
    ({"every": {"mlx_program": None}}, ["neither is set"]),
    ({"every": {"mlx_command": ["x"]}}, ["both are set"]),
    ({"a": {"mlx_python": "python3"}}, ["a: mlx_python is 'python3'"]),
    ({"b": {"mlx_cwd": "work"}}, ["b: mlx_cwd is 'work'"]),
    ({"a": {"mlx_slots": 0}}, ["a: mlx_slots is 0"]),
    ({"a": {"mlx_ips": ["mac1.local"]}}, ["a: mlx_ips has 'mac1.local'"]),
    ({"a": {"mlx_ips": ["fd00::1"]}}, ["a: mlx_ips has 'fd00::1'"]),
    ({"a": {"mlx_ips": ["10.0.0.256"]}}, ["a: mlx_ips has '10.0.0.256'"]),
    ({"a": {"mlx_ips": ["10.0.0.2"]}}, ["address 10.0.0.2 belongs to a and to b"]),
    ({"a": {"mlx_ips": ["10.0.0.9", "10.0.0.9"]}}, ["a: mlx_ips names 10.0.0.9 twice"]),
    ({"a": {"mlx_starting_port": 5}}, ["mlx_starting_port"]),
    ({"b": {"mlx_run": "other"}}, ["mlx_run"]),
    ({"b": {"mlx_ready": "process"}}, ["mlx_ready"]),
    ({"b": {"mlx_files": ["x"]}}, ["mlx_files"]),
    ({"every": {"mlx_run": "../x"}}, ["run's name"]),
    ({"every": {"mlx_connections_per_ip": 0}}, ["mlx_connections_per_ip is 0"]),
    ({"every": {"mlx_starting_port": 0}}, ["mlx_starting_port is 0"]),
    ({"every": {"mlx_starting_port": -1}}, ["mlx_starting_port is -1"]),
    ({"every": {"mlx_starting_port": 65535}}, ["ports end at 65536"]),
    ({"every": {"mlx_ready": "log"}}, ["mlx_ready_pattern"]),
    ({"every": {"mlx_ready": "port"}}, ["mlx_ready_port"]),
    ({"every": {"mlx_stop_signals": ["HARD"]}}, ["HARD"]),
    ({"a": {"mlx_env": {"MLX_RANK": "1"}}}, ["a: ", "MLX_RANK"]),
    ({"a": {"mlx_secret_env": {"A=B": "hunter2"}}}, ["a: ", "'A=B'"]),
    ({"a": {"mlx_env": {"X": True}}}, ["a: mlx_env has X = True (bool)"]),
    (
        {"every": {"mlx_run": "Main"}, "a": {"mlx_slots": -1, "mlx_cwd": "x"}, "b": {"mlx_ips": ["x"]}},
        ["run's name", "a: mlx_slots is -1", "a: mlx_cwd", "b: mlx_ips has 'x'"],
    ),
]


@pytest.mark.parametrize(("request_", "words"), FAULTS, ids=lambda value: str(value)[:60])
def test_faults(request_: dict[str, Any], words: list[str]) -> None:
    """Each fault is said, all in one error."""
    with pytest.raises(MusterError) as caught:
        plan(**request_)
    assert all(word.lower() in str(caught.value).lower() for word in words)
    assert "hunter2" not in str(caught.value)


def test_faults_of_every_host() -> None:
    with pytest.raises(MusterError, match="HARD"):
        plan(b={"mlx_stop_signals": ["HARD"]})


def test_a_host_without_an_ip_address_is_told_what_to_set() -> None:
    with pytest.raises(MusterError, match=r"a: mlx_ips is not set and Ansible connects to 'mac1\.local'"):
        lay_out({"a": variables()}, {"a": "mac1.local"})


@pytest.mark.parametrize(
    ("value", "word"),
    [("x", "x"), ("", ""), (1, "1"), (-2.5, "-2.5"), ("yes", "yes"), ("🎺\n", "🎺\n")],
)
def test_words_of(value: Any, word: str) -> None:
    assert words_of({"X": value}, "a", "mlx_env") == {"X": word}


@pytest.mark.parametrize("value", [True, False, None, [], {}, ["x"]])
def test_words_of_refuses_what_is_no_word_and_shows_no_secret(value: Any) -> None:
    with pytest.raises(MusterError, match=rf"a: mlx_env has X = {re.escape(str(value))} \({type(value).__name__}\)"):
        words_of({"X": value}, "a", "mlx_env")
    with pytest.raises(MusterError, match=rf"a: mlx_secret_env has X = … \({type(value).__name__}\)"):
        words_of({"X": value}, "a", "mlx_secret_env")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mlx_progam", "mlx_program"),
        ("mlx_slot", "mlx_slots"),
        ("mlx_envs", "mlx_env"),
        ("mlx_starting_prot", "mlx_starting_port"),
        ("mlx_leftover", "mlx_leftovers"),
        ("mlx_program", None),
        ("mlx_rdma", None),
        ("mlx_lm_model", None),
        ("mlx_team_contact", None),
        ("mlxprogram", None),
        ("program", None),
    ],
)
def test_unknown_variables(name: str, meant: str | None) -> None:
    assert unknown_variables([name, "mlx_run", "other"], SPEC) == (
        [f"{name} is no variable of Muster; is {meant} meant?"] if meant else []
    )


def test_raise_faults() -> None:
    raise_faults([])
    with pytest.raises(MusterError) as caught:
        raise_faults(["one", "two", "one"])
    assert str(caught.value).splitlines()[-2:] == ["- one", "- two"]


def test_new_instance_is_named_by_the_time_and_unique() -> None:
    names = {new_instance() for _ in range(100)}
    assert len(names) == 100
    assert all(check_instance_name(name) == name for name in names)
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    assert max(name.partition("-")[0] for name in names) <= now
