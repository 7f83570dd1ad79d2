"""Real `mlx.launch` on the fabric's controller, and what it leaves on the hosts, seen from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fabric._fabric import Fabric
from tests.fabric._host import Host, Seen
from tests.integration import _nodes
from tests.integration._playbooks import COMMANDS

SCRIPT = "pidfile=$(mktemp)"


def command(
    fabric: Fabric, *words: str, python: bool = True, port: int = 32323, hostfile: Path | None = None
) -> list[str]:
    """The command line that runs `words` on every host of the fabric, or of a hostfile."""
    options = ["--hostfile", str(hostfile or fabric.hostfile), "--starting-port", str(port)]
    return [str(COMMANDS / "mlx.launch"), *options, *(["--python", sys.executable] if python else []), *words]


@contextmanager
def running(fabric: Fabric, program: Sequence[str], output: Path) -> Iterator[subprocess.Popen[str]]:
    """Start mlx.launch and wait until its ranks have said something; afterwards nothing of it is left anywhere."""
    with output.open("w") as file:
        # It waits for input, and does not take /dev/null for a place without any.
        process = fabric.popen(
            command(fabric, *program),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wanted = len(fabric.hosts)
        _nodes.eventually(lambda: output.read_text().count("rank ") >= wanted, f"{wanted} ranks of mlx.launch", 40)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)
        for host in fabric.hosts:
            end(host, ranks(host))
        _nodes.eventually(lambda: not clients(fabric), "mlx.launch's ssh clients to be gone")
        for host in fabric.hosts:
            for path in files(host):
                _nodes.inside(host, path).unlink(missing_ok=True)


def ranks(host: Host) -> list[Seen]:
    """Processes of ranks that are not Muster's."""
    alive = [process for process in host.processes() if process.state not in "ZX"]
    return [one for one in alive if "MLX_RANK" in one.environ and _nodes.MARKER not in one.environ]


def pids(fabric: Fabric) -> dict[str, list[int]]:
    """Host → pids of such ranks."""
    return {host.name: [one.pid for one in ranks(host)] for host in fabric.hosts}


def files(host: Host) -> list[str]:
    """What `mktemp` made in the host's temporary directory."""
    return host.files("/tmp/tmp.*")


def clients(fabric: Fabric) -> list[int]:
    """Pids of ssh clients of mlx.launch on the controller, whether or not it still lives."""
    found = []
    for guest in fabric.controller.guests():
        try:
            line = Path(f"/proc/{guest.pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if line.startswith("ssh\0") and SCRIPT in line:
            found.append(guest.pid)
    return found


def end(host: Host, processes: Sequence[Seen]) -> None:
    """End these processes for good."""
    if processes:
        host.run(["kill", f"-{signal.SIGKILL.value}", *(str(one.pid) for one in processes)], check=False)
