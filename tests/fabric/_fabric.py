"""A fabric: N hosts, the switch between them, and the controller."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from . import _accounts, _files, _launch, _process, _registry
from ._cables import Cable, Cables
from ._controller import Controller
from ._host import OVERLAYS, Host
from ._network import MAX_HOSTS, Subnet, Switch
from ._options import Options, missing
from ._process import Identity


class Fabric:
    """Brings hosts up on entry and takes them down on exit. `Fabric.attach(name)` takes hold of one that is up."""

    def __init__(self, size: int = 4, name: str = "main", directory: str | Path | None = None, **options: Any) -> None:
        """Further options: `user`, `python`, `mlx_python`, `expose`; see Options. Nothing happens before `up()`."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
            raise ValueError(f"a fabric's name is made of a-z, 0-9 and '-', at most 41 characters; got {name!r}")
        if not 1 <= size <= MAX_HOSTS:
            raise ValueError(f"a fabric has 1 to {MAX_HOSTS} hosts; got {size}")
        self.name, self.options = name, Options(size=size, **options)
        if self.options.user not in _accounts.HOMES:
            raise ValueError(f"hosts have the accounts {', '.join(_accounts.HOMES)}; got {self.options.user!r}")
        self.directory = Path(directory or _registry.BASE / name).resolve()
        self.state: dict[str, Any] = {}
        self.subnet = Subnet(0)
        self.hosts: list[Host] = []

    @classmethod
    def attach(cls, name: str = "main") -> Fabric:
        """The fabric of this name, which must be there (it may have lost hosts)."""
        entry = _registry.find(name)
        if entry is None:
            known = ", ".join(found.name for found in _registry.entries()) or "none"
            raise LookupError(f"wanted the fabric {name!r}, found: {known}; `fabric.py up --name {name}` makes it")
        state = _read_state(Path(entry.directory))
        options = dict(state.get("options", {}))
        fabric = cls(options.pop("size", 4), name, entry.directory, **options)
        fabric.state = state
        fabric._take(entry.subnet)
        return fabric

    def __enter__(self) -> Fabric:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take it down, if it is there."""
        self.down()

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    # What is where

    @property
    def inventory(self) -> Path:
        """The Ansible inventory."""
        return self.directory / "inventory.yml"

    @property
    def hostfile(self) -> Path:
        """The hostfile for `mlx.launch`."""
        return self.directory / "hosts.json"

    @property
    def ssh_config(self) -> Path:
        """Configuration for `ssh -F` on the controller, where plain `ssh h1` works too."""
        return self.directory / "ssh_config"

    @property
    def keeper(self) -> Identity:
        """The process whose namespaces are the controller's, and which holds the switch's open."""
        if "keeper" not in self.state:
            raise RuntimeError(f"the fabric {self.name!r} is not up")
        return Identity(*self.state["keeper"])

    @property
    def controller(self) -> Controller:
        """Where ssh reaches the hosts."""
        return Controller(self.keeper)

    @property
    def switch(self) -> Switch:
        """The bridge between the hosts."""
        return Switch(self.keeper, int(self.state["switch"]))

    def is_up(self) -> bool:
        """Are the controller and all hosts there?"""
        wanted = ["keeper" in self.state and self.keeper, *(host.identity for host in self.hosts)]
        return all(identity and identity.alive() for identity in wanted)

    # Use

    def run(self, argv: Sequence[str] | str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run something on the controller and return what it printed; see Controller.run."""
        return self.controller.run(argv, **options)

    def popen(self, argv: Sequence[str] | str, **options: Any) -> subprocess.Popen[str]:
        """Start something on the controller; see Controller.popen."""
        return self.controller.popen(argv, **options)

    def cable(self, one: str, one_interface: str, other: str, other_interface: str) -> Cable:
        """Lay a cable of their own between two hosts, e.g. ``cable("h1", "en2", "h2", "en2")``; it survives a boot."""
        return Cables(self).lay((one, one_interface), (other, other_interface))

    def remove_cable(self, cable: Cable) -> None:
        """Take a cable away, interfaces and all."""
        Cables(self).remove(cable)

    # Up and down

    def up(self) -> bool:
        """Bring everything up; False when it was up already. A dead fabric of the same name is cleared away first."""
        if reason := missing():
            raise RuntimeError(reason)
        if covered := set(OVERLAYS) & set(self.directory.parts[1:2]):
            raise RuntimeError(
                f"wanted a place for the fabric that hosts do not see, found {self.directory}, which they would: "
                f"choose one outside /{covered.pop()}, e.g. below /run or /tmp"
            )
        with _registry.lock():
            if (entry := _registry.find(self.name)) is not None:
                old = Fabric.attach(self.name)
                if old.is_up():
                    if old.options.size != self.options.size:
                        raise RuntimeError(
                            f"wanted the fabric {self.name!r} with {self.options.size} hosts, found it up with "
                            f"{old.options.size}: take it down first, or give another name"
                        )
                    self.state, self.directory, self.options = old.state, old.directory, old.options
                    self._take(entry.subnet)
                    return False
                old._clear(entry)
            if self.directory.exists() and any(self.directory.iterdir()):
                raise RuntimeError(
                    f"wanted an empty place for the fabric, found files in {self.directory}: remove it or name another"
                )
            entry = _registry.add(self.name, self.directory)
            try:
                self._take(entry.subnet)
                self._bring_up(entry)
            except BaseException:
                self._clear(entry)
                raise
        return True

    def down(self) -> bool:
        """End everything that was started, remove everything that was made; False when there was nothing."""
        with _registry.lock():
            entry = _registry.find(self.name)
            if entry is None:
                return False
            if self.directory != Path(entry.directory):
                raise RuntimeError(
                    f"wanted to take down the fabric {self.name!r} in {self.directory}, found it in {entry.directory}: "
                    "it is another one; Fabric.attach() takes hold of it"
                )
            self.state = _read_state(self.directory)
            self._take(entry.subnet)
            self._clear(entry)
        return True

    def boot_hosts(self, hosts: Iterable[Host]) -> None:
        """Turn hosts on, all at the same time."""
        launches: dict[Host, _launch.Launch] = {}
        try:
            for host in hosts:
                launches[host] = host.start()
            for host, launch in launches.items():
                launch.wait_announced()
                self.record_host(host.name, Identity.of(launch.pid))
            self.switch.plug({host.index: launch.pid for host, launch in launches.items()})
            Cables(self).plug([host.name for host in launches])
            for launch in launches.values():
                launch.go()
            for launch in launches.values():
                launch.wait_ready()
        finally:
            for launch in launches.values():
                launch.close()

    def record_host(self, name: str, identity: Identity | None) -> None:
        """Write down a host's process 1 before it may do anything (None: the host is off)."""
        self.state["hosts"][name] = [identity.pid, identity.start] if identity else None
        self.write_state()

    def write_state(self) -> None:
        """Write `fabric.json`, in one piece."""
        temporary = self.directory / "fabric.json.new"
        temporary.write_text(json.dumps(self.state, indent=1))
        temporary.replace(self.directory / "fabric.json")

    def _take(self, subnet: int) -> None:
        self.subnet = Subnet(subnet)
        self.hosts = [Host(self, index) for index in range(1, self.options.size + 1)]

    def _bring_up(self, entry: _registry.Entry) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        self.state = {"name": self.name, "options": vars(self.options), "hosts": {}, "cables": []}
        self.write_state()
        etc_hosts = self.directory / "etc_hosts"
        covers = [(str(self.directory / "ssh"), entry.ssh_dir), (str(etc_hosts), "/etc/hosts")]
        config = self.directory / "keeper.json"
        config.write_text(json.dumps({"covers": covers}))
        keeper = _launch.start("keeper.py", config, self.directory / "keeper.log", "the controller")
        try:
            _files.write_all(self)  # while the keeper's interpreter starts
            keeper.wait_announced()
            identity = Identity.of(keeper.pid)
            self.state |= {"keeper": [identity.pid, identity.start], "switch": int(keeper.more[0])}
            self.write_state()
            keeper.go()
            self.switch.create(self.subnet.controller)
            self.boot_hosts(self.hosts)
            keeper.wait_ready()
        finally:
            keeper.close()

    def _clear(self, entry: _registry.Entry) -> None:
        victims = [host.identity for host in self.hosts if host.identity]
        if "keeper" in self.state and self.keeper.alive():
            guests = self.controller.guests()
            # Politely first: an ssh that shares its connection then removes its socket from the user's home.
            _process.kill(guests, signal.SIGTERM, timeout=0.3)
            victims += [*guests, self.keeper]
        if left := _process.kill(victims):
            pids = ", ".join(str(identity.pid) for identity in left)
            raise RuntimeError(
                f"wanted the fabric's processes gone, found still there 5 s after SIGKILL: {pids}; look at them"
            )
        if mounts := _mounts_below(self.directory):
            raise RuntimeError(f"will not remove {self.directory}: unmount {', '.join(mounts)} in it first")
        if self.directory.exists():
            shutil.rmtree(self.directory)
        _registry.remove(entry)
        self.state, self.hosts = {}, []


def _read_state(directory: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((directory / "fabric.json").read_text())
    except FileNotFoundError:  # `up` died before it had started anything
        return {}
    return state


def _mounts_below(directory: Path) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        targets = [line.split()[4] for line in file]
    return [target for target in targets if target == str(directory) or target.startswith(f"{directory}/")]
