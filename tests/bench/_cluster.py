"""The two launchers on the same four hosts, each reduced to the figures that are compared."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fabric.fabric import Fabric

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
_BIN = Path(sys.executable).parent
_FIRST = re.compile(r"past its first all_sum at ([\d.]+)")
_RATE = re.compile(r"did ([\d.]+) all_sums a second")


@dataclass(frozen=True)
class Play:
    """A playbook's run: seconds of wall time, and of CPU time of everything it ran on the controller."""

    began: float
    wall: float
    cpu: float


class Cluster:
    """Four hosts of a fabric, driven by Muster's playbooks and by mlx.launch in turn."""

    def __init__(self, fabric: Fabric) -> None:
        """Remember the fabric, which is up."""
        self.fabric = fabric

    def muster(self, program: str, *arguments: str) -> Play:
        """Launch with launch.yml."""
        words = {"mlx_program": [str(PROGRAMS / program), *arguments]}
        return self._play("launch", "-e", json.dumps(words))

    def teardown(self) -> Play:
        """Tear down with teardown.yml, which fails unless every node is proven clean."""
        return self._play("teardown", "-e", "mlx_receipts=")

    def mlx_launch(self, program: str) -> tuple[float, str]:
        """Launch with mlx.launch and wait for its end; return when it was called and what it printed."""
        began = time.time()
        argv = [str(_BIN / "mlx.launch"), "--hostfile", str(self.fabric.hostfile), "--python", sys.executable]
        argv.append(str(PROGRAMS / program))
        done = self.fabric.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return began, done.stdout

    def logs(self) -> str:
        """Return what the ranks of Muster's latest instance printed, from all hosts."""
        script = "cat $(ls -d /root/.muster/runs/main/* | tail -n 1)/rank-*/log"
        return "".join(host.run(script).stdout for host in self.fabric.hosts)

    def await_words(self, words: str) -> None:
        """Wait until every rank of Muster's latest instance has printed these words; end the bench after a minute."""
        deadline = time.monotonic() + 60
        while self.logs().count(words) < len(self.fabric.hosts):
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: the ranks should print {words!r} within 60 s, they printed:\n{self.logs()}")
            time.sleep(0.1)

    def forget(self) -> None:
        """Remove what both launchers leave, so that every round finds the same hosts."""
        for host in self.fabric.hosts:
            host.run("rm -rf /root/.muster/runs/* /tmp/tmp.*")

    def _play(self, name: str, *arguments: str) -> Play:
        argv = [str(_BIN / "ansible-playbook"), "-i", str(self.fabric.inventory), str(ROOT / f"playbooks/{name}.yml")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.time()
        done = self.fabric.run([*argv, *arguments], check=False, cwd=ROOT, capture_output=True, text=True)
        wall = time.time() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"bench: {name}.yml ended {done.returncode}:\n{done.stdout}{done.stderr}")
        return Play(began, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def last_first(text: str, ranks: int) -> float:
    """Return when the last of the ranks was past its first all_sum; end the bench when one is missing."""
    moments = [float(moment) for moment in _FIRST.findall(text)]
    if len(moments) != ranks:
        raise SystemExit(f"bench: wanted {ranks} ranks past their first all_sum, found {len(moments)}:\n{text}")
    return max(moments)


def slowest_rate(text: str, ranks: int) -> float:
    """Return the rate of the slowest rank; end the bench when one is missing."""
    rates = [float(rate) for rate in _RATE.findall(text)]
    if len(rates) != ranks:
        raise SystemExit(f"bench: wanted {ranks} rates, found {len(rates)}:\n{text}")
    return min(rates)
