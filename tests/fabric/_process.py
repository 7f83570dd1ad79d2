"""Processes by identity: a pid together with its start time, so that a reused pid is never mistaken for ours."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """One process, for ever: a pid is reused, a pid with its start ticks is not."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Identity:
        """Who has this pid now. Raises ProcessLookupError when nobody has."""
        start = _start_ticks(pid)
        if start is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, start)

    def alive(self) -> bool:
        """Is it still there (a zombie is not)?"""
        return _start_ticks(self.pid) == self.start


def _start_ticks(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def kill(victims: Iterable[Identity], number: signal.Signals = signal.SIGKILL, timeout: float = 5.0) -> list[Identity]:
    """Send a signal to each, wait until they are gone, and return those that are not.

    Through a pidfd: opened first, the identity checked afterwards, so no later owner of the pid can get the signal.
    """
    waiting: dict[int, Identity] = {}
    poll = select.poll()
    try:
        for victim in victims:
            try:
                descriptor = os.pidfd_open(victim.pid)
            except ProcessLookupError:
                continue
            if not victim.alive():
                os.close(descriptor)
                continue
            waiting[descriptor] = victim
            poll.register(descriptor, select.POLLIN)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        deadline = time.monotonic() + timeout
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                poll.unregister(descriptor)
                del waiting[descriptor]
                os.close(descriptor)
        return list(waiting.values())
    finally:
        for descriptor in waiting:
            os.close(descriptor)


def members(namespace: str) -> list[Identity]:
    """All processes in a namespace, given as what its link in /proc/<pid>/ns reads, e.g. ``net:[4026532345]``."""
    kind = namespace.partition(":")[0]
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{name}/ns/{kind}") == namespace:
                found.append(Identity.of(int(name)))
    return found


def ancestors() -> set[int]:
    """This process and those it descends from: never to be ended by mistake."""
    pid, found = os.getpid(), set()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found
