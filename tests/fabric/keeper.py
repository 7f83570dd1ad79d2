"""The process that keeps a fabric's two namespaces alive: the switch (a bridge) and the controller.

Its own network and mount namespaces are the controller's; the switch's it holds open as a file.
"""

from __future__ import annotations

import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import _launch  # type: ignore[import-not-found]  # found at run time only: this is no module of a package
import _linux  # type: ignore[import-not-found]


def main() -> None:
    """Make the namespaces, cover what the controller must see differently, and wait for the end."""
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    os.unshare(os.CLONE_NEWNET)
    switch = os.open("/proc/self/ns/net", os.O_RDONLY)
    os.unshare(os.CLONE_NEWNET | os.CLONE_NEWNS)
    _launch.detach_and_announce([switch])
    try:
        # Slave, not private: what the machine mounts later shows up here too, and nothing of ours shows up there.
        _linux.mount("none", "/", flags=_linux.MS_REC | _linux.MS_SLAVE)
        for source, target in config["covers"]:
            _linux.bind(source, target)
        _linux.mount("sysfs", "/sys", "sysfs")  # so that /sys/class/net is this namespace's
    except OSError as error:
        _launch.failed(error)
        raise
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    _launch.ready()
    while True:
        signal.pause()


main()
