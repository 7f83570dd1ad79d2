# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the workers of one launch, each busy with its own node, learn at once that the launch failed on another."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import TracebackType

_LOOK = 0.05  # seconds between looks at the mark, a file of this machine


class Watch:
    """While a worker waits for its node, a child of it waits for the mark, then carries out `react` until it succeeds.

    A worker cannot do both: it sits in Ansible's own read of the connection. The mark is a file that the first
    worker whose node failed makes, with the node's name in it; all workers of a play share the folder it is in.
    """

    def __init__(self, mark: str, react: Callable[[], bool]) -> None:
        """Remember the mark's path and what to do; nothing runs yet."""
        self._mark = mark
        self._react = react
        self._child = 0

    def failed(self, host: str) -> None:
        """Tell the others; only the first to fail leaves its name."""
        try:
            with os.fdopen(os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(host)
        except FileExistsError:
            pass

    def first(self) -> str:
        """Return the node that failed first, empty when none did."""
        try:
            with open(self._mark, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def __enter__(self) -> Watch:
        """Start to watch."""
        worker = os.getpid()
        # The child starts with the worker's handlers, and that for SIGTERM ends the worker's whole group.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._child = os.fork()
        if self._child == 0:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                self._wait_and_react(worker)
            finally:
                os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to watch."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGTERM)
        os.waitpid(self._child, 0)

    def _wait_and_react(self, worker: int) -> None:
        while os.getppid() == worker:
            if os.path.exists(self._mark) and self._reacted():
                return
            time.sleep(_LOOK)

    def _reacted(self) -> bool:
        # A connection that fails now may work at the next try; there is nobody here to tell but the next look.
        try:
            return self._react()
        except Exception:
            return False
