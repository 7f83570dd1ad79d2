"""What a rank shall be: from the module's options, and compared with the rank that is there."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError
from ansible_collections.muster.mlx.plugins.module_utils._run import Record
from ansible_collections.muster.mlx.plugins.module_utils._specification import (
    Specification,
    differences,
    digests,
    from_options,
    new_key,
    unseal,
)

from tests.unit.make import RING, record, specification

WORK = "/state/runs/main/x/work"
KEY = "0123456789abcdef" * 2


def started_as(wanted: Specification) -> Record:
    """The record that a start of this specification leaves."""
    return record(
        argv=wanted.argv,
        cwd=wanted.cwd or WORK,
        hosts=wanted.hosts,
        size=wanted.size,
        backend=wanted.backend,
        environment=digests(wanted.environment, KEY),
        secrets=digests(wanted.secrets, KEY),
        files=wanted.files,
        key=KEY,
    )


BASE = specification(
    environment={"A": "1", "B": "2"}, secrets={"TOKEN": "hunter2"}, files={"train.py": "aa", "data/x": "bb"}
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"cwd": WORK}, [], id="the default directory by its name"),
        pytest.param({"environment": {"B": "2", "A": "1"}}, [], id="order of the environment"),
        pytest.param(
            {"argv": ("python3", "b.py")},
            ["program: running ['/usr/bin/python3', 'train.py'], wanted ['python3', 'b.py']"],
            id="program",
        ),
        pytest.param({"cwd": "/else"}, [f"working directory: running {WORK}, wanted /else"], id="directory"),
        pytest.param({"backend": "jaccl"}, ["backend: running ring, wanted jaccl"], id="backend"),
        pytest.param({"size": 3}, ["number of ranks: running 2, wanted 3"], id="size"),
        pytest.param(
            {"hosts": (("10.0.0.1:1",), RING[1])},
            [
                "addresses: running [['10.0.0.1:32323'], ['10.0.0.2:32324']], "
                "wanted [['10.0.0.1:1'], ['10.0.0.2:32324']]"
            ],
            id="another rank's or the own address",
        ),
        pytest.param({"environment": {"A": "1", "B": "3"}}, ["environment B: changed"], id="environment changed"),
        pytest.param({"environment": {"A": "1"}}, ["environment B: no longer wanted"], id="environment less"),
        pytest.param({"environment": {"A": "1", "B": "2", "C": ""}}, ["environment C: new"], id="environment more"),
        pytest.param({"secrets": {"TOKEN": "hunter3"}}, ["secret environment TOKEN: changed"], id="secret"),
        pytest.param(
            {"environment": {"A": "1", "B": "2", "TOKEN": "hunter2"}, "secrets": {}},
            ["environment TOKEN: new", "secret environment TOKEN: no longer wanted"],
            id="a secret is none any more",
        ),
        pytest.param({"files": {"train.py": "ab", "data/x": "bb"}}, ["file train.py: changed"], id="file changed"),
        pytest.param(
            {"files": {"train.py": "aa", "data/y": "bb"}},
            ["file data/x: no longer wanted", "file data/y: new"],
            id="file renamed",
        ),
    ],
)
def test_differences(changes: dict[str, Any], words: list[str]) -> None:
    wanted = Specification(**{**vars(BASE), **changes})
    assert differences(wanted, started_as(BASE), WORK) == words


def test_no_value_of_the_environment_is_in_words_or_record() -> None:
    running = started_as(BASE)
    wanted = Specification(**{**vars(BASE), "secrets": {"TOKEN": "swordfish"}, "environment": {"A": "xyzzy"}})
    said = " ".join(differences(wanted, running, WORK)) + json.dumps(running.to_json()) + repr(BASE)
    assert not any(value in said for value in ("hunter2", "swordfish", "xyzzy"))


def test_digests_tell_name_value_and_key_apart() -> None:
    assert digests({"A": "x"}, KEY) == digests({"A": "x"}, KEY)
    seen = {digests({"A": "x"}, KEY)["A"], digests({"A": "y"}, KEY)["A"], digests({"B": "x"}, KEY)["B"]}
    seen.add(digests({"A": "x"}, new_key())["A"])
    assert len(seen) == 4
    assert new_key() != new_key()


@pytest.mark.parametrize("value", ["", "🎺", "a\nb", "\udcff"])
def test_digests_take_any_value_that_an_environment_holds(value: str) -> None:
    assert len(digests({"A": value}, KEY)["A"]) == 64


OPTIONS: dict[str, Any] = {
    "run": "main",
    "ranks": [0],
    "hosts": [["10.0.0.1:32323"], ["10.0.0.2:32324"]],
    "backend": "ring",
    "python": None,
    "program": ["train.py"],
    "command": None,
    "env": {},
    "cwd": None,
    "files": {},
}


@pytest.mark.parametrize(
    ("changes", "argv"),
    [
        ({}, ("/node/python", "train.py")),
        ({"python": "/venv/python"}, ("/venv/python", "train.py")),
        ({"program": ["-m", "mlx_lm", "server"]}, ("/node/python", "-m", "mlx_lm", "server")),
        ({"program": None, "command": ["/bin/sleep", "1"]}, ("/bin/sleep", "1")),
        ({"program": [], "command": ["a"], "python": "/ignored"}, ("a",)),
    ],
)
def test_from_options_what_runs(changes: dict[str, Any], argv: tuple[str, ...]) -> None:
    (one,) = from_options({**OPTIONS, **changes}, "/node/python")
    assert one == specification(argv=argv)


def test_from_options_a_specification_for_each_rank() -> None:
    found = from_options({**OPTIONS, "ranks": [1, 0], "env": {"A": "1"}, "secret_env": {"S": "2"}}, "/node/python")
    assert [(one.rank, one.size, one.addresses) for one in found] == [
        (1, 2, ("10.0.0.2:32324",)),
        (0, 2, ("10.0.0.1:32323",)),
    ]
    assert all((one.environment, one.secrets, one.cwd) == ({"A": "1"}, {"S": "2"}, "") for one in found)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run": "../x"}, "run's name"),
        ({"ranks": [2]}, "rank 2, and hosts has 2 rows"),
        ({"ranks": [-1]}, "rank -1"),
        ({"hosts": []}, "hosts has 0 rows"),
        ({"ranks": []}, "ranks"),
        ({"ranks": None}, "ranks"),
        ({"program": []}, "program"),
    ],
)
def test_from_options_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MusterError, match=f"(?i){words}"):
        from_options({**OPTIONS, **changes}, "/node/python")


@pytest.mark.parametrize("secrets", [{}, {"TOKEN": "a=b\n🎺", "N": "1"}])
def test_unseal(secrets: dict[str, str]) -> None:
    assert unseal(base64.b64encode(json.dumps(secrets).encode()).decode()) == secrets
    assert unseal(secrets) == secrets
    assert unseal(None) == {}
