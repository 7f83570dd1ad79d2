"""The few Linux calls that Python does not have: mounts, pivot_root, capabilities of a process.

Called through ctypes rather than by running ``mount``: a host makes about thirty mounts, and at two milliseconds for
each process that would be most of the time it takes to come up. Also imported by the programs that run isolated
(``-I -S``), so it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2
PR_CAPBSET_DROP = 24

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {kind or 'bind'} {source} on {target}")


def bind(source: str, target: str, read_only: bool = False) -> None:
    """Show `source` at `target`. Read-only needs a second call: the kernel ignores the flag in the first one."""
    mount(source, target, flags=MS_BIND)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def pivot_root(new_root: str) -> None:
    """Make `new_root` (a mount) the root directory, and let go of everything the old one held."""
    os.chdir(new_root)
    _check(_libc.pivot_root(b".", b"."), f"pivot_root to {new_root}")
    _check(_libc.umount2(b".", MNT_DETACH), "detach the old root")
    os.chdir("/")


def drop_from_bounding_set(*capabilities: int) -> None:
    """Programs that this process starts from now on cannot have these capabilities."""
    for capability in capabilities:
        _check(_libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), f"drop capability {capability}")
