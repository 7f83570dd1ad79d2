"""Process 1 of a host: builds the host's file system tree, starts sshd, and collects orphans until it is told to end.

When it ends the kernel kills everything else in its pid namespace: that is the host's power switch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import _launch  # type: ignore[import-not-found]  # found at run time only: this is no module of a package
import _linux  # type: ignore[import-not-found]

CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_TIME = 16, 17, 25
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}


def build_root(config: dict[str, Any]) -> None:
    """Mount everything below the host's root directory, then make it the root.

    The host's disk is `disk/top`, an ordinary directory: what is written to /root, /home or any new place stays over a
    boot. The system's directories are overlays: the machine's below, never written, the host's changes on its disk.
    """
    _linux.mount("none", "/", flags=_linux.MS_REC | _linux.MS_PRIVATE)
    disk, top = config["disk"], config["disk"] + "/top"
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "home", "mnt"):
        os.makedirs(f"{top}/{name}", exist_ok=True)
    os.chmod(top + "/root", 0o755)  # interpreters below it must be reachable for every user
    _linux.bind(top, top)
    # Takes back what the bind inherits: many a machine mounts /run, where this disk lies, with noexec.
    _linux.mount("none", top, flags=_linux.MS_REMOUNT | _linux.MS_BIND)
    for name, link in config["links"].items():
        if not os.path.lexists(f"{top}/{name}"):
            os.symlink(link, f"{top}/{name}")
    os.chdir(disk)  # relative paths keep commas and colons of the state directory out of the option string
    for name in config["overlays"]:
        # `volatile` spares a sync of the machine's disk at the end, and leaves a note here that refuses a second mount,
        # in case the page cache was lost. But only the host lost its power, not the machine.
        shutil.rmtree(f"work/{name}", ignore_errors=True)
        for part in (f"top/{name}", f"upper/{name}", f"work/{name}"):
            os.makedirs(part, exist_ok=True)
        options = f"lowerdir=/{name},upperdir=upper/{name},workdir=work/{name},volatile"
        _linux.mount("overlay", f"top/{name}", "overlay", data=options)
    for name, mode in (("var/tmp", 0o1777), ("var/log", 0o755)):
        own = f"{disk}/{name.replace('/', '-')}"
        os.makedirs(own, exist_ok=True)
        os.chmod(own, mode)
        _linux.bind(own, f"{top}/{name}")
    for name, options in (("tmp", "mode=1777"), ("run", "mode=0755")):
        _linux.mount("tmpfs", f"{top}/{name}", "tmpfs", _linux.MS_NOSUID | _linux.MS_NODEV, options)
    os.makedirs(top + "/run/sshd")
    build_dev(top + "/dev")
    build_proc(top + "/proc", config["boot_id_file"])
    _linux.mount("sysfs", top + "/sys", "sysfs", _linux.MS_RDONLY)
    for path in config["expose"]:
        os.makedirs(top + path, exist_ok=True)
        _linux.bind(path, top + path, read_only=True)
    _linux.pivot_root(top)


def build_dev(dev: str) -> None:
    """A /dev with the harmless devices only: the machine's disks are not there."""
    _linux.mount("tmpfs", dev, "tmpfs", _linux.MS_NOSUID, "mode=0755")
    for name, (major, minor) in DEVICES.items():
        os.mknod(f"{dev}/{name}", 0o20666, os.makedev(major, minor))
        os.chmod(f"{dev}/{name}", 0o666)
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink("/proc/self/fd" + target, f"{dev}/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{dev}/{name}")
    _linux.mount("devpts", dev + "/pts", "devpts", _linux.MS_NOSUID, "newinstance,ptmxmode=0666,mode=0620,gid=5")
    os.symlink("pts/ptmx", dev + "/ptmx")
    _linux.mount("tmpfs", dev + "/shm", "tmpfs", _linux.MS_NOSUID | _linux.MS_NODEV, "mode=1777")


def build_proc(proc: str, boot_id_file: str) -> None:
    """The host's processes, its own boot id, and no way to turn the machine's knobs."""
    _linux.mount("proc", proc, "proc", _linux.MS_NOSUID | _linux.MS_NODEV | _linux.MS_NOEXEC)
    _linux.bind(proc + "/sys", proc + "/sys", read_only=True)
    # Per network namespace, so it is the host's own. The second call takes back what the new mount inherits.
    _linux.bind(proc + "/sys/net", proc + "/sys/net")
    _linux.mount(
        "none", proc + "/sys/net", flags=_linux.MS_REMOUNT | _linux.MS_BIND | _linux.MS_NOSUID | _linux.MS_NODEV
    )
    if os.path.exists(proc + "/sysrq-trigger"):
        _linux.bind(proc + "/sysrq-trigger", proc + "/sysrq-trigger", read_only=True)
    _linux.bind(boot_id_file, proc + "/sys/kernel/random/boot_id", read_only=True)


def write_files(files: list[dict[str, Any]]) -> None:
    """First boot only, as when a machine is installed: afterwards these files are the host's own."""
    if os.path.exists("/etc/fabric-host"):
        return
    for name in os.listdir("/etc/ssh"):  # the machine's own host keys are none of this host's business
        if name.startswith("ssh_host_"):
            os.unlink("/etc/ssh/" + name)
    for file in files:
        path, owner = file["path"], file["owner"]
        if file["content"] is None:
            os.makedirs(path, exist_ok=True)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(file["content"])
        os.chmod(path, file["mode"])
        os.chown(path, owner, owner)
    with open("/etc/fabric-host", "x", encoding="utf-8"):
        pass


def start_network(config: dict[str, Any]) -> None:
    """Bring up lo, and eth0 with its address (the cable is there already: it is plugged in before `go`)."""
    batch = f"link set lo up\naddress add {config['address']}/{config['prefix']} dev eth0\nlink set eth0 up\n"
    subprocess.run(
        ["ip", "-batch", "-"], input=batch.encode(), check=True, timeout=10, stderr=sys.stderr, stdout=sys.stderr
    )


def start_sshd(command: list[str], address: str) -> None:
    """Start the real sshd and wait until it answers."""
    subprocess.run(command, check=True, timeout=10, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.create_connection((address, 22), timeout=5) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except ConnectionRefusedError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"sshd did not answer on {address}:22 within 10 seconds")
        time.sleep(0.002)


def main() -> None:
    """Come up, say so, and collect orphans for ever."""
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    os.unshare(os.CLONE_NEWPID | os.CLONE_NEWNS | os.CLONE_NEWNET | os.CLONE_NEWUTS | os.CLONE_NEWIPC)
    _launch.detach_and_announce()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    os.umask(0o022)
    try:
        socket.sethostname(config["name"])
        build_root(config)
        write_files(config["files"])
        start_network(config)
        _linux.drop_from_bounding_set(CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_TIME)
        start_sshd(config["sshd"], config["address"])
    except (OSError, subprocess.SubprocessError) as error:
        _launch.failed(error)
        raise
    _launch.ready()
    wanted = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        received = signal.sigtimedwait(wanted, 1)
        if received is not None and received.si_signo == signal.SIGTERM:
            os._exit(0)


main()
