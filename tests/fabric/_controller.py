"""The controller: the machine as it is, but with the fabric's network and ssh directory."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _process
from ._process import Identity


@dataclass(frozen=True)
class Controller:
    """Runs commands where ssh reaches the hosts. `keeper` is the process whose namespaces these are."""

    keeper: Identity

    def command(self, argv: Sequence[str] | str, cwd: str | Path | None = None) -> list[str]:
        """The machine's command line that runs `argv` on the controller. A string is a script for bash."""
        argv = ["bash", "-c", argv] if isinstance(argv, str) else list(argv)
        self._check()
        where = ["--target", str(self.keeper.pid), "--net", "--mount", f"--wdns={cwd or os.getcwd()}"]
        return ["nsenter", *where, "--", *argv]

    def popen(self, argv: Sequence[str] | str, cwd: str | Path | None = None, **options: Any) -> subprocess.Popen[str]:
        """Start something on the controller. nsenter becomes it, so that pid, signals and exit code are its own."""
        return subprocess.Popen(self.command(argv, cwd), **{"text": True, "stdin": subprocess.DEVNULL} | options)

    def run(
        self,
        argv: Sequence[str] | str,
        check: bool = True,
        timeout: float = 120,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run something on the controller and return what it printed."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        options = {"capture_output": True, "text": True} | options
        result = subprocess.run(self.command(argv, cwd), timeout=timeout, check=False, **options)
        if check and result.returncode:
            shown = argv if isinstance(argv, str) else shlex.join(argv)
            raise RuntimeError(
                f"controller: `{shown}` ended with {result.returncode}:\n{result.stdout or ''}{result.stderr or ''}"
            )
        return result

    def enter(self) -> None:
        """Move this process into the controller's namespaces, to the same place in the file tree. For `exec`."""
        cwd = os.getcwd()
        descriptor = os.pidfd_open(self.keeper.pid)
        self._check()
        os.setns(descriptor, os.CLONE_NEWNET | os.CLONE_NEWNS)
        os.close(descriptor)
        os.chdir(cwd)

    def close_connections(self) -> None:
        """End the ssh processes that keep a connection open for later (ControlPersist).

        After `boot()` or `destroy()` of a host they hold a connection to a machine that no longer knows it, and the
        next ssh through them fails once. That is what happens in a real cluster too, so it is not done unasked.
        """
        shared = []
        for guest in self.guests():
            with suppress(OSError):
                if Path(f"/proc/{guest.pid}/cmdline").read_bytes().startswith(b"ssh: "):
                    shared.append(guest)
        _process.kill(shared, signal.SIGTERM, timeout=1)

    def guests(self) -> list[Identity]:
        """What was started on the controller and is still there.

        Being in a network namespace that only this fabric has is proof enough that it is ours. Never the caller itself
        or what it descends from.
        """
        protected = {*_process.ancestors(), self.keeper.pid}
        found = _process.members(os.readlink(f"/proc/{self.keeper.pid}/ns/net"))
        return [member for member in found if member.pid not in protected]

    def _check(self) -> None:
        if not self.keeper.alive():
            raise RuntimeError("the controller of this fabric is gone: take the fabric down and up again")
