"""A node in memory on which ranks of others than Muster live: environments, command lines, open files, connections."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.muster.mlx.plugins.module_utils._process import MARKER, Process, System

from tests.unit.make import process
from tests.unit.memory import MemorySystem

ME = os.geteuid()
HERE = os.getpid()


class ForeignNode(MemorySystem):
    """`environs` is what can be read of each process's environment; a process that is missing there is hidden."""

    def __init__(self, *processes: Process) -> None:
        super().__init__(*processes)
        self.environs: dict[int, dict[str, str]] = {}
        self.lines: dict[int, list[str]] = {}
        self.born: dict[int, float] = {}
        self.held: dict[str, list[int]] = {}
        self.ends: dict[int, list[str]] = {}
        self.folders: list[str] = []

    def rank(self, pid: int, number: int = 0, coordination: str = "/tmp/tmp.AAAAAAAAAA", **changes: Any) -> Process:
        """Let a rank as mlx.launch starts it be born: it leads its session, and hangs on an ssh session's process."""
        one = process(pid, **{"ppid": 1, **changes})
        self.add(one)
        self.environs[pid] = {"MLX_RANK": str(number), "MLX_HOSTFILE": coordination}
        self.lines[pid] = ["python3", "train.py"]
        return one

    def plain(self, pid: int, *words: str, **changes: Any) -> Process:
        """Let another process be born whose environment has nothing of MLX."""
        one = process(pid, **{"ppid": 1, "command": words[0] if words else "x", **changes})
        self.add(one)
        self.environs[pid] = {}
        self.lines[pid] = list(words)
        return one

    def end(self, pid: int) -> None:
        """Let a process end, with all that was known of it."""
        super().end(pid)
        for known in (self.environs, self.lines):
            known.pop(pid, None)
        for holders in self.held.values():
            if pid in holders:
                holders.remove(pid)

    # System

    def markers(self, table: Mapping[int, Process]) -> dict[int, str]:
        """See System."""
        return {pid: names[MARKER] for pid, names in self.environments(table).items() if MARKER in names}

    def environments(self, table: Mapping[int, Process]) -> dict[int, dict[str, str]]:
        """See System."""
        return {pid: names for pid, names in self.environs.items() if pid in table and table[pid].alive}

    def arguments(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """See System."""
        return {pid: self.lines.get(pid, []) for pid in pids}

    def age(self, process: Process) -> float | None:
        """See System; without a test's word every process is an hour old."""
        return self.now() - self.born[process.pid] if process.pid in self.born else 3600.0

    def open_files(self, paths: Iterable[str]) -> dict[str, list[int]]:
        """See System."""
        return {path: self.held[path] for path in paths if self.held.get(path)}

    def endpoints(self, pids: Iterable[int]) -> dict[int, list[str]]:
        """See System."""
        return {pid: self.ends.get(pid, []) for pid in pids}

    def temporary(self) -> list[str]:
        """See System."""
        return self.folders


_CONFORMS: type[System] = ForeignNode
