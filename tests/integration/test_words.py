"""Arguments and environment values reach the rank as they were written, whatever is in them."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.fabric._fabric import Fabric
from tests.integration import _nodes
from tests.integration._playbooks import PROGRAMS, Playbooks

WORDS = [
    "two words",
    "  edges  ",
    "",
    'double " quote',
    "single ' quote",
    "$HOME",
    "${HOME} `id` $(id) ~ *.py !! # ; & | > <",
    "first line\nsecond line\n",
    "tab\tand\rreturn",
    "back\\slash \\n",
    "🦙 Ünïcödé 漢字",
    "--leading-dashes",
    "-",
    "--",
    "a=b",
    "%s %d %%",
    "null",
    "true",
    "0123",
]
ENVIRONMENT = {f"WORD_{number}": word for number, word in enumerate(WORDS)}
HOSTS = {"h1": {}, "h2": {}}


def tell(fabric: Fabric) -> dict[str, dict[str, Any]]:
    """What the ranks were given, as they saw it themselves."""
    found = {}
    for rank, host in enumerate(HOSTS):
        pattern = f"/root/.muster/runs/main/*/work/words-{rank}.json"
        _nodes.eventually(lambda host=host, pattern=pattern: fabric[host].files(pattern), "what the rank writes")
        found[host] = json.loads(_nodes.read(fabric[host], _nodes.only(fabric[host], pattern)))
    return found


def raw(text: str) -> str:
    """The bytes of a text as the program writes them down."""
    return text.encode().decode("latin-1")


def test_of_a_python_program(playbooks: Playbooks, fabric: Fabric) -> None:
    """`mlx_program`, `mlx_env` and `mlx_secret_env`; the second launch finds the same words and changes nothing."""
    inventory = playbooks.inventory(HOSTS)
    wanted = {
        "program": [str(PROGRAMS / "words.py"), *WORDS],
        "mlx_env": ENVIRONMENT,
        "mlx_secret_env": {f"SECRET_{name}": word for name, word in ENVIRONMENT.items()},
        "mlx_ready": "process",
    }
    playbooks.launch(inventory=inventory, **wanted).ok()
    for host, found in tell(fabric).items():
        assert found["argv"] == [raw(word) for word in WORDS], host
        given = {name: found["environ"].get(name) for name in ENVIRONMENT}
        assert given == {name: raw(word) for name, word in ENVIRONMENT.items()}, host
        given = {name: found["environ"].get(f"SECRET_{name}") for name in ENVIRONMENT}
        assert given == {name: raw(word) for name, word in ENVIRONMENT.items()}, host
    assert playbooks.launch(inventory=inventory, **wanted).ok().changed == {"h1": 0, "h2": 0}
    other = {**wanted, "program": [str(PROGRAMS / "words.py"), *WORDS[:-1]]}
    playbooks.launch(inventory=inventory, **other).failed("rank 0, program: running")
    playbooks.teardown(inventory=inventory).ok()


def test_of_a_whole_command(playbooks: Playbooks, fabric: Fabric) -> None:
    """`mlx_command`, and `mlx_cwd` with a space in its name; numbers of `mlx_env` arrive as they are written."""
    inventory = playbooks.inventory(HOSTS)
    for host in HOSTS:
        fabric[host].run(["mkdir", "-p", "/srv/a place"])
    command = [sys.executable, str(PROGRAMS / "words.py"), *WORDS]
    numbers = {"EIGHT": 8, "HALF": 0.5}
    playbooks.launch(
        inventory=inventory, mlx_command=command, mlx_env=numbers, mlx_ready="process", mlx_cwd="/srv/a place"
    ).ok()
    for rank, host in enumerate(HOSTS):
        path = f"/srv/a place/words-{rank}.json"
        _nodes.eventually(
            lambda host=host, path=path: _nodes.inside(fabric[host], path).exists(), "what the rank writes"
        )
        found = json.loads(_nodes.read(fabric[host], path))
        assert found["argv"] == [raw(word) for word in WORDS], host
        assert (found["environ"]["EIGHT"], found["environ"]["HALF"]) == ("8", "0.5")
        assert found["cwd"] == "/srv/a place"
    playbooks.teardown(inventory=inventory).ok()
    for host in HOSTS:
        fabric[host].run(["rm", "-r", "/srv/a place"])
