"""The files that others read: ssh's directory, /etc/hosts, the Ansible inventory, the hostfile of `mlx.launch`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import _accounts
from ._network import Subnet

if TYPE_CHECKING:
    from ._fabric import Fabric


def write_all(fabric: Fabric) -> None:
    """Make the keys, and write everything that the controller and the hosts read."""
    directory, subnet, options = fabric.directory, fabric.subnet, fabric.options
    addresses = {host.name: host.address for host in fabric.hosts}
    ssh, keys = directory / "ssh", directory / "keys"
    ssh.mkdir(mode=0o700)
    keys.mkdir(mode=0o700)
    user_key, host_keys = ssh / "id_ed25519", {name: keys / name for name in addresses}
    make_keys([user_key, *host_keys.values()])
    public = {name: path.with_suffix(".pub").read_text() for name, path in host_keys.items()}
    known = known_hosts(addresses, public)
    for path, content in {
        ssh / "known_hosts": known,
        ssh / "config": ssh_config(addresses, subnet, "~/.ssh", options.user),
        fabric.ssh_config: ssh_config(addresses, subnet, str(ssh), options.user),
        directory / "etc_hosts": etc_hosts(addresses, subnet.controller, os.uname().nodename),
        fabric.inventory: inventory(addresses, options.user, options.python, options.mlx_python or options.python),
        fabric.hostfile: hostfile(addresses),
    }.items():
        path.write_text(content)
    for host in fabric.hosts:
        files = _accounts.install(
            host.name,
            hosts=etc_hosts(addresses, subnet.controller),
            host_key=(host_keys[host.name].read_text(), public[host.name]),
            user_key=(user_key.read_text(), user_key.with_suffix(".pub").read_text()),
            known_hosts=known,
            ssh_config=ssh_config(addresses, subnet, "~/.ssh"),
        )
        host.prepare(files, options.exposed())


def make_keys(paths: list[Path]) -> None:
    """One ed25519 key per path, made at the same time."""
    commands = [
        subprocess.Popen(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"muster-fabric-{path.name}", "-f", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for path in paths
    ]  # fmt: skip
    for command, path in zip(commands, paths, strict=True):
        errors = command.communicate(timeout=20)[1]
        if command.returncode:
            raise RuntimeError(f"ssh-keygen made no key at {path}: {errors.strip()}")


def ssh_config(addresses: Mapping[str, str], subnet: Subnet, directory: str, user: str = "") -> str:
    """Configuration for ssh; `directory` is where the key and the known hosts are, as ssh will see it."""
    lines = [f"Host {name}\n    HostName {address}" for name, address in addresses.items()]
    lines.append(f"Host {' '.join(addresses)} {subnet.pattern}")
    settings = {
        "User": user,
        "IdentityFile": f"{directory}/id_ed25519",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": f"{directory}/known_hosts",
        "StrictHostKeyChecking": "yes",
        "CheckHostIP": "no",
        "BatchMode": "yes",
        "ConnectTimeout": "5",
    }
    lines += [f"    {key} {value}" for key, value in settings.items() if value]
    return "\n".join(lines) + "\n"


def known_hosts(addresses: Mapping[str, str], keys: Mapping[str, str]) -> str:
    """Each host's public key, pinned under its name and its address."""
    return "".join(f"{name},{address} {' '.join(keys[name].split()[:2])}\n" for name, address in addresses.items())


def etc_hosts(addresses: Mapping[str, str], controller: str, own_name: str = "") -> str:
    """Names of everything in the fabric, and nothing of the world outside it."""
    lines = [f"127.0.0.1 localhost{' ' + own_name if own_name else ''}", "::1 localhost ip6-localhost"]
    lines += [f"{address} {name}" for name, address in addresses.items()]
    return "\n".join([*lines, f"{controller} controller"]) + "\n"


def inventory(addresses: Mapping[str, str], user: str, python: str, mlx_python: str) -> str:
    """The Ansible inventory. JSON is YAML, so its quoting rules are enough."""
    lines = ["mlx:", "  hosts:"]
    for name, address in addresses.items():
        lines += [f"    {name}:", f"      ansible_host: {address}", f"      mlx_ips: [{json.dumps(address)}]"]
    variables = {"ansible_user": user, "ansible_python_interpreter": python, "mlx_python": mlx_python}
    lines += ["  vars:", *(f"    {key}: {json.dumps(value)}" for key, value in variables.items())]
    return "\n".join(lines) + "\n"


def hostfile(addresses: Mapping[str, str]) -> str:
    """The cluster description that `mlx.launch --hostfile` reads."""
    return json.dumps([{"ssh": name, "ips": [address]} for name, address in addresses.items()], indent=1) + "\n"
