#!/usr/bin/env python3
"""Bring up hosts with a real sshd each on this machine, use them, break them, take them down. See README.md.

Also what tests import: ``from tests.fabric.fabric import Fabric``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if (
    __name__ == "__main__"
):  # as a script: make the package importable under its own name, in place of this file's directory
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.fabric._cables import Cable
from tests.fabric._fabric import Fabric
from tests.fabric._host import Host, Seen
from tests.fabric._options import missing
from tests.fabric._registry import entries

__all__ = ["Cable", "Fabric", "Host", "Seen", "missing"]

HOST_ACTIONS = {
    "boot": "turn a host on, or off and on",
    "destroy": "power loss",
    "cut_network": "pull its cable",
    "restore_network": "plug its cable in",
    "stop_sshd": "end its ssh listener",
    "start_sshd": "start its ssh listener",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="fabric.py", description=(__doc__ or "").splitlines()[0])
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="main", help="the fabric's name (default: main)")
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", parents=[common], help="bring a fabric up")
    up.add_argument("-n", "--size", type=int, default=4, help="how many hosts (default: 4)")
    up.add_argument("--dir", help="where its state is kept (default: /run/muster-fabric/NAME)")
    up.add_argument("--user", default="root", help="account for ssh and Ansible: root, mlx or noisy (default: root)")
    up.add_argument("--python", default=sys.executable, help="interpreter for Ansible on the hosts (default: this one)")
    up.add_argument("--mlx-python", default="", help="interpreter that has mlx (default: as --python)")
    up.add_argument(
        "--expose", action="append", default=[], metavar="PATH", help="show PATH on the hosts, read-only (repeatable)"
    )
    commands.add_parser("down", parents=[common], help="end and remove a fabric")
    commands.add_parser("list", help="show all fabrics")
    commands.add_parser("ssh-config", parents=[common], help="print the ssh configuration, for `exec -- ssh -F`")
    execute = commands.add_parser("exec", parents=[common], help="run a command as the controller")
    execute.add_argument("argv", nargs="+", metavar="CMD", help="after --")
    host = commands.add_parser("host", parents=[common], help="break or mend one host")
    host.add_argument("host", help="h1, h2 …")
    host.add_argument(
        "action", choices=HOST_ACTIONS, help="; ".join(f"{name}: {text}" for name, text in HOST_ACTIONS.items())
    )
    shell = commands.add_parser("shell", parents=[common], help="a shell, or a command, on a host, not over ssh")
    shell.add_argument("host", help="h1, h2 …")
    shell.add_argument("argv", nargs="*", metavar="CMD", help="after -- (default: bash)")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    if reason := missing():
        print(f"fabric: {reason}", file=sys.stderr)
        return 2
    try:
        return run(options)
    except (OSError, RuntimeError, LookupError, ValueError) as error:
        print(f"fabric: {error}", file=sys.stderr)
        return 1


def run(options: argparse.Namespace) -> int:
    """Carry out what was asked for."""
    if options.command == "up":
        return up(options)
    if options.command == "list":
        for entry in entries():
            fabric = Fabric.attach(entry.name)
            state = "up" if fabric.is_up() else "incomplete"
            print(
                f"{entry.name:20} {state:10} {len(fabric.hosts):3} hosts  198.18.{entry.subnet}.0/24  {entry.directory}"
            )
        return 0
    fabric = Fabric.attach(options.name)
    if options.command == "down":
        began = time.monotonic()
        fabric.down()
        print(f"fabric {options.name} is down ({time.monotonic() - began:.2f} s)")
    elif options.command == "ssh-config":
        print(fabric.ssh_config.read_text(), end="")
    elif options.command == "exec":
        fabric.controller.enter()
        os.execvp(options.argv[0], options.argv)
    elif options.command == "shell":
        command = fabric[options.host].command(options.argv or ["bash"], env={"TERM": os.environ.get("TERM", "dumb")})
        os.execvp(command[0], command)
    else:
        getattr(fabric[options.host], options.action)()
    return 0


def up(options: argparse.Namespace) -> int:
    """Bring a fabric up and say how to use it."""
    began = time.monotonic()
    fabric = Fabric(
        options.size, options.name, options.dir, user=options.user, python=os.path.abspath(options.python),
        mlx_python=os.path.abspath(options.mlx_python) if options.mlx_python else "", expose=tuple(options.expose),
    )  # fmt: skip
    fresh = fabric.up()
    took = f"{time.monotonic() - began:.2f} s" if fresh else "it was up already"
    print(f"fabric {fabric.name} is up: {', '.join(host.name for host in fabric.hosts)} ({took})")
    print(f"inventory {fabric.inventory}\nhostfile  {fabric.hostfile}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
