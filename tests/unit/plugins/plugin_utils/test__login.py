"""What a login prints on its own."""

from __future__ import annotations

import pytest
from ansible_collections.muster.mlx.plugins.plugin_utils._login import login_output


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        pytest.param('{"changed": false}\n', "", "", id="nothing"),
        pytest.param("*** welcome\n{}\n", "", "*** welcome", id="before the answer"),
        pytest.param("a\n\n  b  \n{}\n", "", "a\nb", id="lines, tidied"),
        pytest.param('{}\n{"x": 1}\nafter\n', "", "", id="what follows is not its"),
        pytest.param("  {}\n", "", "", id="an answer that is indented"),
        pytest.param("", "no mail\n", "no mail", id="on stderr"),
        pytest.param("hi\n{}", "hi\nhi\n", "hi", id="once is enough"),
        pytest.param("only a banner", "", "only a banner", id="no answer at all"),
        pytest.param("", "", "", id="silence"),
        pytest.param(
            "",
            "OpenSSH_9.9p2, LibreSSL 3.3.6\ndebug1: Reading configuration\ndebug2: x\ndebug3: y\n"
            "Warning: Permanently added '10.0.0.1' (ED25519)\nShared connection to 10.0.0.1 closed.\nmotd\n"
            "Connection to 10.0.0.1 closed.\n",
            "motd",
            id="what ssh says itself",
        ),
        pytest.param("x" * 600 + "\n{}", "", "x" * 500, id="not endlessly"),
    ],
)
def test_login_output(stdout: str, stderr: str, said: str) -> None:
    assert login_output(stdout, stderr) == said


def test_the_limit_is_the_callers() -> None:
    assert login_output("abcdef", "", 3) == "abc"
