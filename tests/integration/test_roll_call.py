"""The roll call and the receipts: once, whatever settings the user has; a table in a terminal, plain text in a file."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from tests.fabric._fabric import Fabric
from tests.integration._playbooks import CHECKOUT, COMMANDS, IDLE, Playbooks

ROW = re.compile(
    r"^main  (\d)     (h\d)    \d+ +running +\d+s +\d+ MB +(\d+)  /root/\.muster/runs/main/\S+/rank-\1/log$", re.M
)
RECEIPT = re.compile(r"^main  (\d)     (h\d)    \d+ +running  SIGTERM  \d\.\d\d +killed by SIGTERM  clean$", re.M)
FOUR = [(str(rank), f"h{rank + 1}") for rank in range(4)]
USERS_OWN = "[defaults]\nstrategy = free\nforks = 5\ndisplay_ok_hosts = false\nhost_key_checking = true\n"


def assert_table(text: str, title: str, row: re.Pattern[str]) -> None:
    """The table is there once, plain, with a row per rank in order."""
    assert text.count(title) == 1, text
    assert "\x1b" not in text
    assert [found.groups()[:2] for found in row.finditer(text)] == FOUR, text


def test_once_and_plain_with_every_setting(playbooks: Playbooks, fabric: Fabric, tmp_path: Path) -> None:
    """From the user's own folder with the user's own ansible.cfg, from playbooks/, and with other output callbacks."""
    users = tmp_path / "own"
    users.mkdir()
    (users / "ansible.cfg").write_text(USERS_OWN)
    away = {"cwd": users, "keep": False}
    launched = playbooks.run(str(CHECKOUT / "playbooks/launch.yml"), program=IDLE, **away).ok()
    assert_table(launched.text, "ROLL CALL", ROW)
    settings: dict[str, tuple[str, Path, Mapping[str, str]]] = {
        "the checkout's": ("playbooks/status.yml", CHECKOUT, {}),
        "from playbooks/": ("status.yml", CHECKOUT / "playbooks", {}),
        "minimal": ("playbooks/status.yml", CHECKOUT, {"ANSIBLE_STDOUT_CALLBACK": "minimal"}),
        "oneline": ("playbooks/status.yml", CHECKOUT, {"ANSIBLE_STDOUT_CALLBACK": "oneline"}),
    }
    for name, (playbook, cwd, env) in settings.items():
        print(name)
        assert_table(playbooks.run(playbook, cwd=cwd, env=env, keep=False).ok().text, "ROLL CALL", ROW)
    torn = playbooks.run(str(CHECKOUT / "playbooks/teardown.yml"), **away).ok()
    assert_table(torn.text, "RECEIPTS", RECEIPT)

    (folder,) = (users / "receipts/main").iterdir()
    assert f"receipts: {folder}" in torn.out
    assert sorted(path.name for path in folder.iterdir()) == [f"h{number}.json" for number in range(1, 5)]
    for rank, host in enumerate(fabric.hosts):
        receipt = json.loads((folder / f"{host.name}.json").read_text())
        assert (receipt["node"], receipt["run"], receipt["verdict"], receipt["problems"]) == (
            host.name,
            "main",
            "clean",
            [],
        )
        assert receipt["boot"] == host.boot_id
        (of_rank,) = receipt["ranks"]
        assert (of_rank["rank"], of_rank["verdict"], of_rank["left"], of_rank["ports"]) == (rank, "clean", [], [])
        assert [name for name, _ in of_rank["signals"]] == ["SIGTERM"]
        assert 0 < of_rank["seconds"] < 10
        assert of_rank["pid"] > 1
        assert any(path.endswith(f"/rank-{rank}/record.json") for path in receipt["files_removed"])


def test_coloured_in_a_terminal(playbooks: Playbooks, fabric: Fabric) -> None:
    """A wide terminal: one table with a green row per living rank; and the terminal is blocking as it was before."""
    playbooks.launch().ok()
    text, blocking = in_terminal(playbooks, fabric, 200)
    assert blocking, "the terminal was left non-blocking"
    assert text.count("ROLL CALL") == 1
    shown = text.partition("ROLL CALL")[2].partition("PLAY RECAP")[0]
    assert len(re.findall(r"\x1b\[0;32mmain  \d ", shown)) == 4
    assert_table(re.sub(r"\x1b\[[\d;]*m", "", text), "ROLL CALL", ROW)
    playbooks.teardown().ok()


def test_as_wide_as_the_terminal(playbooks: Playbooks, fabric: Fabric) -> None:
    """A terminal of 80 columns: no row is wider, the path of a log stands below its row."""
    hosts = playbooks.inventory({"h1": {"mlx_slots": 4}})
    try:
        playbooks.launch(mlx_command=["sleep", "600"], mlx_ready="process", inventory=hosts).ok()
        text, _ = in_terminal(playbooks, fabric, 80)
    finally:
        playbooks.teardown(inventory=hosts).ok()
    shown = re.sub(r"\x1b\[[\d;]*m", "", text.partition("ROLL CALL")[2].partition("PLAY RECAP")[0]).splitlines()
    rows = [line.split() for line in shown if line.startswith("main ")]
    assert [(row[1], row[2], row[4]) for row in rows] == [(rank, "h1", "running") for rank in "0123"]
    assert sum(line.startswith("  log: /root/.muster/runs/main/") for line in shown) == 4
    assert max(len(line) for line in shown if line.startswith("main ")) <= 80


def in_terminal(playbooks: Playbooks, fabric: Fabric, columns: int) -> tuple[str, bool]:
    """Run status.yml in a terminal: all that appeared there, and whether the terminal is blocking as before."""
    terminal, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = ["ansible-playbook", "-i", str(fabric.inventory), "playbooks/status.yml"]
    env = {**playbooks.environment(), "TERM": "xterm-256color", "PATH": f"{COMMANDS}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        fabric.controller.command(command, CHECKOUT),
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        env=env,
        start_new_session=True,
    )
    shown, deadline = b"", time.monotonic() + 60
    try:
        while process.poll() is None or select.select([terminal], [], [], 0)[0]:
            assert time.monotonic() < deadline, shown.decode(errors="replace")
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536)
        blocking = not fcntl.fcntl(its_end, fcntl.F_GETFL) & os.O_NONBLOCK
    finally:
        process.kill()
        process.wait(10)
        os.close(its_end)
        os.close(terminal)
    assert process.returncode == 0, shown.decode(errors="replace")
    return shown.decode().replace("\r\n", "\n"), blocking
