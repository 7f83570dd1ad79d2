"""What can be chosen about a fabric, and whether this machine can have one at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
COMMANDS = ("ip", "nsenter", "setpriv", "ssh", "ssh-keygen", "/usr/sbin/sshd")
# Exposing one of these would cover what a host has of its own.
NEVER_EXPOSED = {"/", "/root", "/home", "/tmp", "/run", "/dev", "/proc", "/sys", "/etc", "/usr", "/usr/local", "/var"}


@dataclass(frozen=True)
class Options:
    """What can be chosen. `python` is Ansible's interpreter on the hosts; `mlx_python` is the same one unless given."""

    size: int = 4
    user: str = "root"
    python: str = sys.executable
    mlx_python: str = ""
    expose: tuple[str, ...] = ()

    def exposed(self) -> list[str]:
        """All paths of the machine that hosts see, read-only, shortest first so that none covers another."""
        for path in self.expose:
            if not os.path.isdir(path) or os.path.abspath(path) in NEVER_EXPOSED:
                raise ValueError(
                    f"wanted to expose {path} on the hosts, found {_kind(path)}: name an existing directory, but none "
                    f"of {', '.join(sorted(NEVER_EXPOSED))}"
                )
        paths = {str(CHECKOUT), str(Path.home() / ".pyenv/versions"), *map(os.path.abspath, self.expose)}
        for python in {self.python, self.mlx_python or self.python, sys.executable}:
            paths |= prefixes(python)
        return sorted((path for path in paths - NEVER_EXPOSED if os.path.isdir(path)), key=len)


def prefixes(python: str) -> set[str]:
    """The installation an interpreter belongs to, and for a venv the one it was made from, without running either."""
    prefix = Path(os.path.abspath(python)).parents[1]
    found = {str(prefix), str(Path(os.path.realpath(python)).parents[1])}
    with suppress(FileNotFoundError):
        for line in (prefix / "pyvenv.cfg").read_text().splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home":
                found |= {str(Path(value.strip()).parent), os.path.realpath(Path(value.strip()).parent)}
    return found


def missing() -> str:
    """Why a fabric cannot be brought up here; empty when it can."""
    if sys.platform != "linux":
        return f"the fabric needs Linux (network and pid namespaces); this is {sys.platform}"
    if not hasattr(os, "setns"):
        version = sys.version.split()[0]
        return f"the fabric needs Python 3.12 or later (os.setns, os.unshare); {sys.executable} is {version}"
    if os.geteuid() != 0:
        return "the fabric needs root (it makes namespaces and mounts); run it with sudo"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [command for command in COMMANDS if not shutil.which(command, path=path)]
    if absent:
        return f"the fabric misses {', '.join(absent)}: install iproute2, util-linux, openssh-client and openssh-server"
    if not _has_overlay():
        return "the fabric needs the kernel's overlay file system, and `modprobe overlay` did not bring it"
    return ""


def _kind(path: str) -> str:
    if not os.path.exists(path):
        return "nothing there"
    return "a directory that a host has of its own" if os.path.isdir(path) else "no directory"


def _has_overlay() -> bool:
    if "\toverlay\n" in Path("/proc/filesystems").read_text():
        return True
    return bool(shutil.which("modprobe")) and not subprocess.run(["modprobe", "overlay"], check=False).returncode
