"""Runs the playbooks on the fabric's controller as a user does: what they print, the recap, every module's result."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fabric._fabric import Fabric

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
PLUGINS = Path(__file__).with_name("callback_plugins")
COMMANDS = Path(sys.executable).parent
ALL_SUM = str(CHECKOUT / "examples/all_sum.py")
FOREVER = [ALL_SUM, "--forever"]
IDLE = [str(PROGRAMS / "idle.py")]
"""Does not end by itself when another rank of its ring does, so that what ends it is known."""

# What would make a run depend on who runs the tests, and from where.
FOREIGN = (
    "ANSIBLE_",
    "PYTEST_",
    "FORCE_COLOR",
    "NO_COLOR",
    "CLICOLOR",
    "COLUMNS",
    "KEEP_RESULTS",
    "PYTHONPATH",
    "MLX_",
)


@dataclass(frozen=True)
class Result:
    """What one task returned for one host."""

    task: str
    host: str
    status: str
    values: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Outcome:
    """A playbook that has ended. `results` and `recap` are empty where the run was told not to keep them."""

    command: list[str]
    rc: int
    out: str
    err: str
    seconds: float
    results: list[Result] = field(default_factory=list)
    recap: dict[str, dict[str, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"`{' '.join(self.command)}` ended with {self.rc} after {self.seconds:.2f} s\n{self.out}\n{self.err}"

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.out + self.err

    def ok(self) -> Outcome:
        """Assert that it succeeded."""
        assert self.rc == 0, repr(self)
        return self

    def failed(self, *words: str) -> Outcome:
        """Assert that it failed, and said these words, whether or not they begin a sentence."""
        assert self.rc != 0, repr(self)
        missing = [word for word in words if word.lower() not in self.text.lower()]
        assert not missing, f"it does not say {missing}: {self!r}"
        return self

    @property
    def changed(self) -> dict[str, int]:
        """The recap's `changed` by host."""
        return {host: counts["changed"] for host, counts in self.recap.items()}

    def by_host(self, word: str, status: str = "") -> dict[str, dict[str, Any]]:
        """What the task with this word in its name returned, by host."""
        return {
            one.host: one.values for one in self.results if word in one.task and status in ("", one.status)
        }  # fmt: skip

    def _shown(self, fact: str) -> list[dict[str, Any]]:
        found = [one.values[fact] for one in self.results if one.task.startswith("Show ") and fact in one.values]
        assert len(found) == 1, f"wanted one task that shows {fact}, found {len(found)}: {self!r}"
        facts: list[dict[str, Any]] = found[0]
        return facts

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """The facts of the roll call."""
        return self._shown("ranks")

    @property
    def receipts(self) -> dict[str, dict[str, Any]]:
        """The receipts, by node."""
        return {receipt["node"]: receipt for receipt in self._shown("receipts")}

    @property
    def pids(self) -> dict[str, dict[int, int]]:
        """Node → rank → pid, as the roll call says."""
        found: dict[str, dict[int, int]] = {}
        for rank in self.ranks:
            found.setdefault(rank["node"], {})[rank["rank"]] = rank["pid"]
        return found


class Running:
    """A playbook that was started and not waited for."""

    def __init__(self, process: subprocess.Popen[str], command: list[str], kept: Path) -> None:
        self.process, self.command, self._kept, self._began = process, command, kept, time.monotonic()

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self._began

    def finish(self, timeout: float = 90) -> Outcome:
        """Wait for its end."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"{' '.join(self.command)} did not end in {timeout} s:\n{out}\n{err}") from None
        seconds = self.seconds
        lines = self._kept.read_text().splitlines() if self._kept.exists() else []
        documents = [json.loads(line) for line in lines]
        recap = next((one["recap"] for one in documents if "recap" in one), {})
        results = [Result(**one) for one in documents if "task" in one]
        return Outcome(self.command, self.process.returncode, out, err, seconds, results, recap)


class Playbooks:
    """The user at the controller. `folder` holds what a run needs: its variables, what it returned, its receipts."""

    def __init__(self, fabric: Fabric, folder: Path, home: Path) -> None:
        self.fabric, self.folder, self.home = fabric, folder, home
        self._numbers = itertools.count()
        self._started: list[Running] = []

    def launch(self, *options: str, **variables: Any) -> Outcome:
        """Run launch.yml."""
        return self.run("launch", *options, **variables)

    def status(self, *options: str, **variables: Any) -> Outcome:
        """Run status.yml."""
        return self.run("status", *options, **variables)

    def teardown(self, *options: str, **variables: Any) -> Outcome:
        """Run teardown.yml."""
        return self.run("teardown", *options, **variables)

    def run(self, playbook: str, *options: str, **variables: Any) -> Outcome:
        """Run a playbook to its end; see start()."""
        return self.start(playbook, *options, **variables).finish()

    def start(
        self,
        playbook: str,
        *options: str,
        inventory: Path | None = None,
        cwd: Path = CHECKOUT,
        env: Mapping[str, str] | None = None,
        keep: bool = True,
        program: list[str] | None = FOREVER,
        **variables: Any,
    ) -> Running:
        """Start a playbook; a plain name is one of the checkout.

        Variables go through a file, so that none is on a command line.
        A launch runs a program that sums for ever, unless another is named, or none (`program=None`).
        """
        if "launch" in playbook and program is not None and "mlx_command" not in variables:
            variables.setdefault("mlx_program", program)
        if cwd == CHECKOUT and playbook.endswith("teardown"):
            variables.setdefault("mlx_receipts", str(self.folder / "receipts"))
        number = next(self._numbers)
        given = self.folder / f"variables-{number}.json"
        given.write_text(json.dumps(variables))
        name = f"playbooks/{playbook}.yml" if playbook.isalpha() else playbook
        command = [str(COMMANDS / "ansible-playbook"), "-i", str(inventory or self.fabric.inventory), name]
        command += ["-e", f"@{given}", *options]
        kept = self.folder / f"results-{number}.jsonl"
        process = self.fabric.popen(
            command,
            cwd=cwd,
            env={**self.environment(kept if keep else None), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        running = Running(process, command, kept)
        self._started.append(running)
        return running

    def close(self) -> None:
        """End what a test that failed did not wait for."""
        for running in self._started:
            if running.process.poll() is None:
                os.killpg(running.process.pid, signal.SIGKILL)  # it leads its group, and is not waited for yet
                running.process.communicate(timeout=10)

    def environment(self, kept: Path | None = None) -> dict[str, str]:
        """The environment of a user who has set nothing of Ansible's, but for where it keeps its own files."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        plain["ANSIBLE_HOME"] = str(self.home)
        if kept:
            plain |= {
                "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
                "ANSIBLE_CALLBACKS_ENABLED": "keep_results",
                "KEEP_RESULTS": str(kept),
            }
        return plain

    def inventory(self, hosts: Mapping[str, Mapping[str, Any]], name: str = "inventory", **variables: Any) -> Path:
        """Write an inventory of these hosts, in this order, with variables of their own and of the group."""
        python = sys.executable
        entries = {}
        for host, own in hosts.items():
            address = self.fabric[host].address
            entries[host] = {"ansible_host": address, "mlx_ips": [address], **own}
        group = {"ansible_user": "root", "ansible_python_interpreter": python, "mlx_python": python, **variables}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"mlx": {"hosts": entries, "vars": group}}))
        return path
