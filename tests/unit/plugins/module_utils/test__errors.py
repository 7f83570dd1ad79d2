"""How an error reads, and what a module makes of it."""

from __future__ import annotations

import pytest
from ansible_collections.muster.mlx.plugins.module_utils._errors import MusterError, failure


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("a rank should run", "it does not", "look at it"), "A rank should run. It does not. Look at it."),
        (("A node runs macOS.", "is it a Mac?"), "A node runs macOS. Is it a Mac?"),
        (("", "one part only"), "One part only."),
        (("mlx_run is a name", "run's name is odd"), "mlx_run is a name. Run's name is odd."),
        (("/bin/ps should answer", "it exited 1: no message"), "/bin/ps should answer. It exited 1: no message."),
    ],
)
def test_a_message_is_made_of_sentences(parts: tuple[str, ...], message: str) -> None:
    assert str(MusterError(*parts)) == message


def test_lines_stay_lines() -> None:
    message = str(MusterError("x", "it said:\n  two\n  lines", "\nLook at it"))
    assert message.splitlines()[1] == "  two"
    assert message.splitlines()[3].startswith("Look at it")


def test_a_result_of_an_error_has_its_facts() -> None:
    result = failure(MusterError("this", "that", "do", fenced=True, failures=[1]))
    assert result == {"failed": True, "changed": False, "msg": "This. That. Do.", "fenced": True, "failures": [1]}


def test_a_result_of_a_refused_file_operation_names_the_file() -> None:
    result = failure(FileNotFoundError(2, "No such file or directory", "/x/y"))
    assert (result["failed"], result["changed"]) == (True, False)
    assert "No such file or directory: '/x/y'" in result["msg"]
