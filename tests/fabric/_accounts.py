"""What is written on a host's disk when it is installed: accounts, homes, keys, sshd's configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

WELCOME = "echo '*** welcome'\necho '*** welcome' >&2\n"
SSHD_CONFIG = """\
# Written by the fabric. Everything that is not said here is sshd's own default.
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
PrintLastLog no
MaxStartups 500
MaxSessions 500
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Account:
    """A user that exists on every host."""

    name: str
    uid: int
    home: str
    shell: str = "/bin/bash"
    rc: str = ""


ACCOUNTS = (Account("mlx", 1501, "/home/mlx"), Account("noisy", 1502, "/home/noisy", rc=WELCOME))
HOMES = {"root": "/root"} | {account.name: account.home for account in ACCOUNTS}
RC_FILES = (".profile", ".bashrc", ".bash_profile", ".zshenv")


@dataclass(frozen=True)
class File:
    """A file, or with no content a directory, to be put on a host."""

    path: str
    content: str | None
    mode: int = 0o644
    owner: int = 0


def install(name: str, hosts: str, host_key: tuple[str, str], user_key: tuple[str, str],
            known_hosts: str, ssh_config: str) -> list[File]:  # fmt: skip
    """Every file that makes a copy of this machine into the host `name`."""
    users = [Account("root", 0, "/root"), *ACCOUNTS]
    files = [
        File("/etc/hostname", name + "\n"),
        File("/etc/hosts", hosts),
        File("/etc/passwd", _with_entries("/etc/passwd", {
            user.name: f"{user.name}:x:{user.uid}:{user.uid}::{user.home}:{user.shell}" for user in users})),
        File("/etc/group", _with_entries("/etc/group", {user.name: f"{user.name}:x:{user.uid}:" for user in users})),
        # "*" is no password; "!" would be a locked account, which sshd refuses even with a key when PAM is off
        File("/etc/shadow", _with_entries("/etc/shadow", {
            user.name: f"{user.name}:*:19000:0:99999:7:::" for user in users}), 0o640),
        File("/etc/ssh/sshd_config", SSHD_CONFIG),
        File("/etc/ssh/ssh_host_ed25519_key", host_key[0], 0o600),
        File("/etc/ssh/ssh_host_ed25519_key.pub", host_key[1]),
    ]  # fmt: skip
    for user in users:
        folder = user.home + "/.ssh"
        if user.uid:  # root's home exists
            files.append(File(user.home, None, 0o755, user.uid))
        files += [
            File(folder, None, 0o700, user.uid),
            File(folder + "/authorized_keys", user_key[1], 0o600, user.uid),
            File(folder + "/id_ed25519", user_key[0], 0o600, user.uid),
            File(folder + "/id_ed25519.pub", user_key[1], 0o644, user.uid),
            File(folder + "/known_hosts", known_hosts, 0o600, user.uid),
            File(folder + "/config", ssh_config, 0o600, user.uid),
        ]
        files += [File(f"{user.home}/{rc}", user.rc, 0o644, user.uid) for rc in RC_FILES if user.rc]
    return files


def _with_entries(path: str, entries: dict[str, str]) -> str:
    """The machine's account file with our entries in place of its own of the same names."""
    kept = [
        line
        for line in Path(path).read_text().splitlines()
        if line and re.split(":", line, maxsplit=1)[0] not in entries
    ]
    return "\n".join([*entries.values(), *kept]) + "\n"
