"""One host of the fabric, seen and handled from outside: for looking, and for breaking things."""

from __future__ import annotations

import glob
import json
import os
import shlex
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _launch, _process
from ._accounts import HOMES, File
from ._cables import Cables
from ._network import PREFIX
from ._process import Identity

if TYPE_CHECKING:
    from ._fabric import Fabric

SSHD = ["/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config", "-E", "/var/log/sshd.log"]
# What a host has its own changes of. Everything else in the machine's root directory does not exist on a host.
OVERLAYS = ("etc", "usr", "var", "opt", "srv", "bin", "sbin", "lib", "lib32", "lib64")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Seen:
    """A process as its host sees it."""

    pid: int
    ppid: int
    uid: int
    state: str
    argv: list[str]
    environ: dict[str, str]


class Host:
    """A host. `name`, `index` (from 1), `address`; everything else is asked from the kernel at the time of the call."""

    def __init__(self, fabric: Fabric, index: int) -> None:
        self._fabric = fabric
        self.index, self.name = index, f"h{index}"
        self.address = fabric.subnet.host(index)
        self.directory = fabric.directory / "hosts" / self.name

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address} {'up' if self.identity and self.identity.alive() else 'down'}>"

    @property
    def identity(self) -> Identity | None:
        """Its process 1, with the machine's pid; None when it is off."""
        found = self._fabric.state["hosts"].get(self.name)
        return Identity(*found) if found else None

    @property
    def pid(self) -> int:
        """The machine's pid of its process 1. Raises when the host is off."""
        identity = self.identity
        if identity is None or not identity.alive():
            raise RuntimeError(f"{self.name} of fabric {self._fabric.name} is off; boot() turns it on")
        return identity.pid

    @property
    def fs_root(self) -> Path:
        """The host's root directory as the machine can open it; absolute symlinks in it lead to the machine's files."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def boot_id(self) -> str:
        """Of the boot that is running, or ran last."""
        return (self.directory / "boot_id").read_text().strip()

    # -- run and look ------------------------------------------------------------------------------------------------

    def command(self, argv: Sequence[str] | str, user: str = "root", cwd: str | None = None,
                env: Mapping[str, str] | None = None) -> list[str]:  # fmt: skip
        """The machine's command line that runs `argv` on the host. A string is a script for bash."""
        home = HOMES[user]
        argv = ["bash", "-c", argv] if isinstance(argv, str) else list(argv)
        variables = {
            "PATH": PATH,
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            **(env or {}),
        }
        identity = [] if user == "root" else ["--reuid", user, "--regid", user, "--init-groups"]
        return [
            "nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--",
            # nsenter waits outside and forwards nothing: without this a command would survive it
            "setpriv", "--pdeathsig", "KILL", *identity, "--",
            "env", "-i", "-C", cwd or home, *(f"{key}={value}" for key, value in variables.items()), *argv,
        ]  # fmt: skip

    def popen(
        self,
        argv: Sequence[str] | str,
        user: str = "root",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start something on the host directly, not over ssh. It ends with the process that is returned."""
        return subprocess.Popen(
            self.command(argv, user, cwd, env), **{"text": True, "stdin": subprocess.DEVNULL} | options
        )

    def run(
        self,
        argv: Sequence[str] | str,
        user: str = "root",
        check: bool = True,
        timeout: float = 60,
        input: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run something on the host directly, not over ssh, and return what it printed."""
        result = subprocess.run(
            self.command(argv, user, cwd, env),
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and result.returncode:
            shown = argv if isinstance(argv, str) else shlex.join(argv)
            raise RuntimeError(
                f"{self.name}: `{shown}` as {user} ended with {result.returncode}:\n{result.stdout}{result.stderr}"
            )
        return result

    def processes(self) -> list[Seen]:
        """All processes of the host, as the host sees them."""
        proc, found = self.fs_root / "proc", []
        for name in filter(str.isdigit, os.listdir(proc)):
            with suppress(FileNotFoundError, ProcessLookupError):
                fields = (proc / name / "stat").read_text(errors="replace").rpartition(")")[2].split()
                argv = (proc / name / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
                raw = (proc / name / "environ").read_bytes().decode(errors="replace").split("\0")
                environ = dict(item.split("=", 1) for item in raw if "=" in item)
                uid = (proc / name).stat().st_uid
                found.append(Seen(int(name), int(fields[1]), uid, fields[0], argv if argv != [""] else [], environ))
        return sorted(found, key=lambda process: process.pid)

    def files(self, pattern: str) -> list[str]:
        """Absolute paths on the host that match, hidden ones too; `**` goes deep."""
        root = self.fs_root
        return sorted(
            "/" + path for path in glob.glob(pattern.lstrip("/"), root_dir=root, recursive=True, include_hidden=True)
        )

    def listening_ports(self) -> set[int]:
        """TCP ports that something on the host listens on."""
        ports = set()
        for name in ("tcp", "tcp6"):
            path = Path(f"/proc/{self.pid}/net/{name}")
            for line in path.read_text().splitlines()[1:] if path.exists() else []:
                fields = line.split()
                if fields[3] == "0A":
                    ports.add(int(fields[1].rpartition(":")[2], 16))
        return ports

    # -- break and mend ----------------------------------------------------------------------------------------------

    def stop_sshd(self) -> None:
        """End the listener; sessions that are open stay open."""
        pid = int((self.fs_root / "run/sshd.pid").read_text())
        self.run(["kill", str(pid)])
        self._wait(lambda: 22 not in self.listening_ports(), "sshd to stop listening")

    def start_sshd(self) -> None:
        """Start the listener again."""
        self.run(SSHD)
        self._wait(lambda: 22 in self.listening_ports(), "sshd to listen")

    def cut_network(self) -> None:
        """Pull the cable: the host loses its carrier, the others hear nothing more."""
        self._fabric.switch.set_port(self.index, up=False)

    def restore_network(self) -> None:
        """Plug the cable in again."""
        self._fabric.switch.set_port(self.index, up=True)

    def destroy(self) -> None:
        """Power loss. The cable goes first, so that no goodbye (FIN, RST) reaches the others."""
        identity = self.identity
        if identity is None:
            return
        if identity.alive():
            self._fabric.switch.unplug(self.index)
            Cables(self._fabric).unplug(self.name)
            if _process.kill([identity]):
                raise RuntimeError(
                    f"{self.name} is still there 5 seconds after SIGKILL to its process 1, pid {identity.pid}"
                )
        self._fabric.record_host(self.name, None)

    def boot(self) -> None:
        """Turn it on, or off and on: a new boot id, empty /tmp, /run and /dev/shm, and the disk as it was left."""
        self.destroy()
        self._fabric.boot_hosts([self])

    # -- coming up, in three steps so that a fabric can take all its hosts through each of them together ---------------

    def prepare(self, files: list[File], expose: Sequence[str]) -> None:
        """Write what process 1 reads at its first boot."""
        (self.directory / "disk").mkdir(parents=True)
        present = [name for name in OVERLAYS if os.path.lexists(f"/{name}")]
        config = {
            "name": self.name,
            "address": self.address,
            "prefix": PREFIX,
            "disk": str(self.directory / "disk"),
            "boot_id_file": str(self.directory / "boot_id"),
            "overlays": [name for name in present if not os.path.islink(f"/{name}")],
            "links": {name: os.readlink(f"/{name}") for name in present if os.path.islink(f"/{name}")},
            "files": [asdict(file) for file in files],
            "expose": list(expose),
            "sshd": SSHD,
        }
        path = self.directory / "config.json"
        path.touch(mode=0o600)  # it holds the private keys
        path.write_text(json.dumps(config))

    def start(self) -> _launch.Launch:
        """Start its process 1, which waits to be recorded and to get its cable."""
        (self.directory / "boot_id").write_text(f"{uuid.uuid4()}\n")
        return _launch.start(
            "host_init.py", self.directory / "config.json", self.directory / "init.log", f"host {self.name}"
        )

    def _wait(self, condition: Any, what: str, timeout: float = 5) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: waited {timeout} seconds for {what}")
            time.sleep(0.005)
