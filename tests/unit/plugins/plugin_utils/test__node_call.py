"""The short way to a node: a program composed on the controller, run by a bare interpreter, its answer found again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.muster.mlx.plugins.plugin_utils._bootstrap import MARK
from ansible_collections.muster.mlx.plugins.plugin_utils._node_call import (
    compose,
    interpreter,
    parse_answer,
    validated,
)

from tests.unit.make import INSTANCE, RUN, options, tree


def interpreters() -> list[str]:
    """Return this Python, and the oldest that a node may have, where one is at hand."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    old = [*map(str, versions.glob("3.9.*/bin/python3.9")), "/usr/bin/python3.9", "/opt/homebrew/bin/python3.9"]
    return [sys.executable, *[path for path in old if os.access(path, os.X_OK)][:1]]


@pytest.fixture(params=interpreters(), ids=lambda path: Path(path).name)
def call(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Run one of the modules as a node does, in an empty home, and return what its interpreter left."""

    def run(entry: str, check: bool = False, **given: Any) -> dict[str, Any]:
        program = compose(entry, options(entry, state_dir=str(tmp_path / "state"), **given), check)
        done = subprocess.run(
            [request.param, "-I", "-S", "-X", "utf8", "-"],
            input=program.encode("utf-8", "surrogatepass"),
            capture_output=True,
            cwd=tmp_path,
            check=False,
            timeout=60,
        )
        return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}

    return run


def test_a_module_answers_through_a_bare_interpreter(call: Any, tmp_path: Path) -> None:
    done = call("rank_info")
    assert (done["rc"], done["stderr"]) == (0, "")
    noise, answer = parse_answer(done)
    assert (noise, answer["changed"], answer["ranks"], answer["work"]) == ("", False, [], {})
    assert list(tmp_path.iterdir()) == []


def test_words_survive_the_way(call: Any) -> None:
    command = ["/bin/echo", "🎺", "größe", "two\nlines", "'\"\\", "\udcff", "{{ x }}"]
    wanted = {"run": RUN, "ranks": [0], "hosts": [["127.0.0.1:5"]], "instance": INSTANCE, "command": command}
    _noise, answer = parse_answer(call("rank", True, **wanted))
    assert answer["diff"]["after"]["rank 0"]["program"] == command


def test_check_mode_writes_nothing(call: Any, tmp_path: Path) -> None:
    before = tree(tmp_path)
    _noise, answer = parse_answer(call("rank", True, state="absent", run=RUN))
    assert (answer["changed"], tree(tmp_path)) == (False, before)


def test_an_error_is_a_failed_result(call: Any, tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to("elsewhere")
    _noise, answer = parse_answer(call("rank_info"))
    assert (answer["failed"], answer["changed"]) == (True, False)
    assert "symlink" in answer["msg"]


def test_a_whole_life(call: Any, tmp_path: Path) -> None:
    """The supervisor's source comes along with the rest."""
    wanted = {"run": RUN, "ranks": [0], "hosts": [["127.0.0.1:5"]], "instance": INSTANCE, "ready": "process"}
    _noise, up = parse_answer(call("rank", command=["/bin/sleep", "600"], **wanted))
    assert (up.get("msg"), up["changed"], up["ranks"][0]["state"]) == (None, True, "running")
    _noise, seen = parse_answer(call("rank_info", run=RUN))
    assert [one["pid"] for one in seen["ranks"]] == [up["ranks"][0]["pid"]]
    _noise, down = parse_answer(call("rank", state="absent", run=RUN, grace=5))
    assert (down["verdict"], down["receipt"]["ranks"][0]["pid"]) == ("clean", up["ranks"][0]["pid"])


@pytest.mark.parametrize(
    ("done", "noise", "answer"),
    [
        pytest.param({"stdout": f'\n{MARK}{{"a": 1}}\n'}, "", {"a": 1}, id="alone"),
        pytest.param({"stdout": f'welcome\n\n{MARK}{{"a": 1}}\nbye\n'}, "welcome", {"a": 1}, id="with words around"),
        pytest.param(
            {"stdout": f'no newline{chr(10)}{MARK}{{"a": 1}}'}, "no newline", {"a": 1}, id="right behind words"
        ),
        pytest.param({"stdout": f"{{}}\n{MARK}{{}}\n", "stderr": "mail\n"}, "mail", {}, id="words that look like one"),
        pytest.param({"stdout": f'\r\n{MARK}{{"a": "\\n"}}\r\n'}, "", {"a": "\n"}, id="through a terminal"),
    ],
)
def test_parse_answer(done: dict[str, Any], noise: str, answer: dict[str, Any]) -> None:
    assert parse_answer(done) == (noise, answer)


@pytest.mark.parametrize(
    ("done", "words"),
    [
        ({"rc": 127, "stdout": "", "stderr": "python3: not found"}, "exit code 127.*python3: not found"),
        ({"rc": 1, "stdout": "welcome", "stderr": "Traceback\nValueError: x"}, "(?s)exit code 1.*ValueError: x"),
        ({"rc": 0, "stdout": "", "stderr": ""}, "no output"),
    ],
)
def test_no_answer_is_a_failure_that_shows_what_there_was(done: dict[str, Any], words: str) -> None:
    _noise, answer = parse_answer(done)
    assert (answer["failed"], answer["changed"]) == (True, False)
    assert re.search(words, answer["msg"])


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({}, None),
        ({"ansible_python_interpreter": "/opt/python"}, "/opt/python"),
        ({"ansible_python_interpreter": "python3"}, None),
        ({"ansible_python_interpreter": "auto"}, None),
        ({"ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3"}}, "/usr/bin/python3"),
        (
            {
                "ansible_python_interpreter": "auto_silent",
                "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3"},
            },
            "/usr/bin/python3",
        ),
        (
            {
                "ansible_python_interpreter": "/opt/python",
                "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3"},
            },
            "/opt/python",
        ),
        (
            {
                "ansible_python_interpreter": "python3.13",
                "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3"},
            },
            None,
        ),
    ],
)
def test_interpreter(variables: dict[str, Any], path: str | None) -> None:
    assert interpreter(variables) == path


def test_options_are_completed_as_the_module_itself_does_it() -> None:
    assert validated("rank_info", {}) == {"run": None, "state_dir": "~/.muster"}
    params = validated("rank", {"state": "absent", "grace": "5", "keep": "3", "escalate": "no"})
    assert (params["grace"], params["keep"], params["escalate"], params["run"]) == (5.0, 3, False, "main")


@pytest.mark.parametrize(
    ("entry", "arguments", "words"),
    [
        ("rank", {}, "ranks, hosts, instance"),
        ("rank", {"state": "running"}, "value of state must be one of"),
        ("rank", {"state": "absent", "grace": "long"}, "grace"),
        ("rank_info", {"rank": 1}, "(?i)unsupported"),
        ("preflight", {"ranks": [0], "program": ["x"]}, "required together: ranks, hosts"),
        ("preflight", {"ranks": [0], "hosts": [["a:1"]], "program": ["x"], "command": ["y"]}, "mutually exclusive"),
    ],
)
def test_options_that_the_module_would_refuse(entry: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleActionFail, match=words):
        validated(entry, arguments)


def test_the_program_is_plain_text_whatever_is_in_it() -> None:
    program = compose("rank_info", options("rank_info", run='"""\n\\ \' 🎺 \udcff'), True)
    compile(program, "<node>", "exec")
    assert program.encode() and "🎺" not in program
