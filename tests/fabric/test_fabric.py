"""The fabric itself: is each host a machine of its own, does it break as one, and is nothing left afterwards?"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from . import _host, _process, _registry
from ._options import CHECKOUT
from ._process import Identity
from .fabric import Fabric, missing
from .plugin import name_of_run

pytestmark = [pytest.mark.fabric, pytest.mark.skipif(bool(missing()), reason=missing() or "-")]

SSH_DIR = Path(pwd.getpwuid(os.getuid()).pw_dir, ".ssh")
SSH_DIR_WAS_THERE = SSH_DIR.exists() and not _registry.entries()
COMMAND = [sys.executable, str(CHECKOUT / "tests/fabric/fabric.py")]


def ssh(fabric: Fabric, host: str, script: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return fabric.run(["ssh", host, script], check=check, timeout=20)


def machine() -> dict[str, object]:
    """Where a fabric must not show on the machine, not even while it is up."""
    return {
        "mounts": Path("/proc/self/mountinfo").read_text().splitlines(),
        "links": sorted(os.listdir("/sys/class/net")),
    }


def namespaces_of(pid: int | str) -> set[str]:
    try:
        return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "mnt", "pid", "uts", "ipc")}
    except OSError:
        return set()


def left_of(name: str, namespaces: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """What is left of a fabric on the machine: programs, anything in its namespaces, files."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
            if f"muster-fabric/{name}/" in command or namespaces & namespaces_of(pid):
                found.append(f"process {pid} {command}")
    found += [str(path) for path in Path("/run/muster-fabric").glob(f"**/{name}*")]
    if not _registry.entries() and not SSH_DIR_WAS_THERE and SSH_DIR.exists():
        found.append(str(SSH_DIR))
    return found


@pytest.fixture
def own_name() -> Iterator[str]:
    """The name of a fabric that a test makes for itself; gone afterwards, whatever happens in between."""
    name = name_of_run("-own")
    yield name
    subprocess.run([*COMMAND, "down", "--name", name], check=False, capture_output=True, timeout=30)


class TestHostIsAMachine:
    def test_answers_over_ssh_under_its_own_name(self, fabric: Fabric) -> None:
        names = [ssh(fabric, host.name, "hostname").stdout.strip() for host in fabric.hosts]
        assert names == ["h1", "h2", "h3", "h4"]

    def test_reaches_the_other_hosts_over_ssh(self, fabric: Fabric) -> None:
        assert ssh(fabric, "h1", "ssh h2 ssh h4 hostname").stdout == "h4\n"

    def test_has_its_own_host_key_and_an_unknown_one_is_refused(self, fabric: Fabric) -> None:
        keys = {ssh(fabric, host.name, "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout for host in fabric.hosts}
        assert len(keys) == len(fabric.hosts)
        result = fabric.run(["ssh", "-o", "HostKeyAlias=h2", "h1", "true"], check=False)
        assert result.returncode == 255
        assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in result.stderr

    @pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home", "/etc", "/usr/local"])
    def test_has_its_own_files(self, fabric: Fabric, place: str) -> None:
        ssh(fabric, "h1", f"touch {place}/only-here")
        assert fabric["h1"].files(f"{place}/only-here") == [f"{place}/only-here"]
        assert fabric["h2"].files(f"{place}/only-here") == []
        assert not Path(place, "only-here").exists()
        fabric["h1"].run(["rm", f"{place}/only-here"])

    def test_sees_only_its_own_processes(self, fabric: Fabric) -> None:
        seen = fabric["h1"].processes()
        assert seen[0].pid == 1
        assert "host_init.py" in " ".join(seen[0].argv)
        assert len(seen) < 10
        mark = f"MUSTER_MARK={os.getpid()}"
        with fabric["h2"].popen(["sleep", "30"], env=dict([mark.split("=")])) as sleeper:
            deadline = time.monotonic() + 5
            while not (found := [p for p in fabric["h2"].processes() if p.argv == ["sleep", "30"]]):
                assert time.monotonic() < deadline
            assert found[0].environ["MUSTER_MARK"] == str(os.getpid())
            assert not any("MUSTER_MARK" in process.environ for process in fabric["h1"].processes())
            sleeper.kill()
        deadline = time.monotonic() + 5
        while any(process.argv == ["sleep", "30"] for process in fabric["h2"].processes()):
            assert time.monotonic() < deadline, "a command on a host must end with the nsenter that started it"

    def test_has_its_own_network(self, fabric: Fabric) -> None:
        assert 22 in fabric["h1"].listening_ports()
        with fabric["h1"].popen([sys.executable, "-c", LISTEN], stdout=subprocess.PIPE) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "listening\n"
            assert 7777 in fabric["h1"].listening_ports()
            assert 7777 not in fabric["h2"].listening_ports()
            listener.kill()
        assert ssh(fabric, "h1", "ls /sys/class/net").stdout.split() == ["eth0", "lo"]

    def test_collects_orphans(self, fabric: Fabric) -> None:
        ssh(fabric, "h1", "for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.3")
        assert [process for process in fabric["h1"].processes() if process.state == "Z"] == []

    def test_cannot_reach_the_machine(self, fabric: Fabric) -> None:
        assert ssh(fabric, "h1", "date -s 2001-01-01", check=False).returncode != 0
        assert ssh(fabric, "h1", "echo 1 > /proc/sys/vm/drop_caches", check=False).returncode != 0
        assert ssh(fabric, "h1", "sysctl -qw net.ipv4.ip_forward=0").returncode == 0
        assert fabric["h1"].files("/dev/[sv]d*") == []

    def test_has_the_checkout_read_only(self, fabric: Fabric) -> None:
        path = str(Path(__file__).resolve())
        assert ssh(fabric, "mlx@h1", f"cat {path}").stdout == Path(path).read_text()
        result = ssh(fabric, "h1", f"touch {path}", check=False)
        assert result.returncode != 0
        assert "Read-only file system" in result.stderr

    def test_runs_the_interpreters_of_the_machine(self, fabric: Fabric) -> None:
        for user in ("root", "mlx"):
            result = ssh(fabric, f"{user}@h1", f"{sys.executable} -c 'import sys; print(sys.prefix)'")
            assert result.stdout.strip() == sys.prefix


LISTEN = """
import socket, time
listener = socket.create_server(("", 7777))
print("listening", flush=True)
connection = listener.accept()
time.sleep(60)
"""

CONNECT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7777))
print("in", flush=True)
connection.settimeout(1)
connection.recv(1)
"""


class TestAccounts:
    def test_mlx_is_an_ordinary_user(self, fabric: Fabric) -> None:
        assert ssh(fabric, "mlx@h1", "id -un; pwd; ls -A").stdout.split() == ["mlx", "/home/mlx", ".ssh"]
        assert ssh(fabric, "mlx@h1", "ls /root/.ssh", check=False).returncode != 0

    def test_noisy_prints_on_both_streams_before_anything_else(self, fabric: Fabric) -> None:
        result = ssh(fabric, "noisy@h1", "echo 4711")
        assert result.stdout == "*** welcome\n4711\n"
        assert result.stderr == "*** welcome\n"

    def test_nobody_gets_in_without_the_key(self, fabric: Fabric) -> None:
        result = fabric.run(["ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
                             "-o", "UserKnownHostsFile=/dev/null", "-i", "/dev/null", fabric["h1"].address, "true"],
                            check=False)  # fmt: skip
        assert result.returncode == 255
        assert "Permission denied (publickey)" in result.stderr


class TestController:
    def test_exec_is_the_command_itself(self, fabric: Fabric, tmp_path: Path) -> None:
        command = [*COMMAND, "exec", "--name", fabric.name, "--"]
        result = subprocess.run(
            [*command, "bash", "-c", "pwd; echo $MARK; cat; exit 7"],
            cwd=tmp_path, env=os.environ | {"MARK": "env"}, input="in",
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert (result.returncode, result.stdout) == (7, f"{tmp_path}\nenv\nin")
        with subprocess.Popen(
            [*command, "sh", "-c", "echo $$; exec sleep 30"], stdout=subprocess.PIPE, text=True
        ) as sleeper:
            assert sleeper.stdout is not None
            assert sleeper.stdout.readline().strip() == str(sleeper.pid)
            sleeper.send_signal(signal.SIGINT)
            assert sleeper.wait(5) == -signal.SIGINT

    def test_knows_the_hosts_and_no_other_network(self, fabric: Fabric) -> None:
        assert fabric.run(["getent", "hosts", "h2"]).stdout.split() == [fabric["h2"].address, "h2"]
        assert fabric.run(["ip", "route"]).stdout.split()[0] == f"198.18.{fabric.subnet.number}.0/24"
        assert fabric.run(["ssh", "-G", "h1"]).stdout.count("batchmode yes") == 1

    def test_the_files_for_others_agree_with_the_hosts(self, fabric: Fabric) -> None:
        wanted = [{"ssh": host.name, "ips": [host.address]} for host in fabric.hosts]
        assert json.loads(fabric.hostfile.read_text()) == wanted
        inventory = fabric.inventory.read_text()
        assert all(f"    {host.name}:\n      ansible_host: {host.address}\n" in inventory for host in fabric.hosts)


class TestBreaking:
    def test_boot_is_a_new_boot_with_the_old_disk(self, whole_fabric: Fabric) -> None:
        host = whole_fabric["h2"]
        before = ssh(whole_fabric, "h2", "cat /proc/sys/kernel/random/boot_id").stdout
        ssh(
            whole_fabric,
            "h2",
            "touch /tmp/gone /run/gone /dev/shm/gone /root/kept /home/mlx/kept /var/tmp/kept /etc/kept",
        )
        host.boot()
        after = ssh(whole_fabric, "h2", "cat /proc/sys/kernel/random/boot_id").stdout
        machine = Path("/proc/sys/kernel/random/boot_id").read_text()
        assert len({before, after, machine, ssh(whole_fabric, "h1", "cat /proc/sys/kernel/random/boot_id").stdout}) == 4
        assert after.strip() == host.boot_id
        assert [path for place in ("/tmp", "/run", "/dev/shm") for path in host.files(f"{place}/gone")] == []
        assert (
            len([path for place in ("/root", "/home/mlx", "/var/tmp", "/etc") for path in host.files(f"{place}/kept")])
            == 4
        )

    def test_power_loss_says_no_goodbye(self, whole_fabric: Fabric) -> None:
        host = whole_fabric["h3"]
        with host.popen([sys.executable, "-c", LISTEN], stdout=subprocess.PIPE) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "listening\n"
            with whole_fabric.popen(
                [sys.executable, "-c", CONNECT, host.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as peer:
                assert peer.stdout is not None
                assert peer.stdout.readline() == "in\n"
                host.destroy()
                assert "TimeoutError" in peer.communicate(timeout=10)[1]
        assert host.identity is None
        with pytest.raises(RuntimeError, match="is off"):
            host.run("true")
        assert ssh(whole_fabric, "h1", "hostname").stdout == "h1\n"
        host.boot()
        assert ssh(whole_fabric, "h3", "hostname").stdout == "h3\n"

    def test_a_cut_cable_can_be_mended(self, whole_fabric: Fabric) -> None:
        whole_fabric["h4"].cut_network()
        result = whole_fabric.run(["ssh", "-o", "ConnectTimeout=1", "h4", "true"], check=False)
        assert result.returncode == 255
        assert whole_fabric["h4"].run("cat /sys/class/net/eth0/carrier").stdout == "0\n"
        whole_fabric["h4"].restore_network()
        assert ssh(whole_fabric, "h4", "hostname").stdout == "h4\n"

    def test_sshd_can_be_stopped_and_started(self, whole_fabric: Fabric) -> None:
        whole_fabric["h1"].stop_sshd()
        assert "Connection refused" in ssh(whole_fabric, "h1", "true", check=False).stderr
        whole_fabric["h1"].start_sshd()
        assert ssh(whole_fabric, "h1", "hostname").stdout == "h1\n"

    def test_a_host_can_switch_itself_off(self, whole_fabric: Fabric) -> None:
        ssh(whole_fabric, "h2", "kill -TERM 1", check=False)
        deadline = time.monotonic() + 5
        while whole_fabric["h2"].identity.alive():  # type: ignore[union-attr]
            assert time.monotonic() < deadline
        whole_fabric["h2"].boot()
        assert ssh(whole_fabric, "h2", "hostname").stdout == "h2\n"

    def test_a_cable_of_their_own_carries_traffic_and_survives_a_boot(self, whole_fabric: Fabric) -> None:
        cable = whole_fabric.cable("h1", "en2", "h2", "en5")
        try:
            for host, interface, address in (("h1", "en2", "10.9.9.1"), ("h2", "en5", "10.9.9.2")):
                whole_fabric[host].run(f"ip address add {address}/30 dev {interface}; ip link set {interface} up")
            assert ssh(whole_fabric, "h1", "cat /sys/class/net/en2/carrier").stdout == "1\n"
            over_the_cable = ["ssh", "-b", "10.9.9.1", "-o", "HostKeyAlias=h2", "10.9.9.2", "hostname"]
            assert whole_fabric["h1"].run(over_the_cable).stdout == "h2\n"
            whole_fabric["h2"].destroy()
            assert ssh(whole_fabric, "h1", "cat /sys/class/net/en2/carrier").stdout == "0\n"
            assert "10.9.9.1" in ssh(whole_fabric, "h1", "ip address show en2").stdout
            whole_fabric["h2"].boot()
            assert ssh(whole_fabric, "h1", "cat /sys/class/net/en2/carrier").stdout == "1\n"
            whole_fabric["h2"].run("ip address add 10.9.9.2/30 dev en5; ip link set en5 up")
            assert whole_fabric["h1"].run(over_the_cable).stdout == "h2\n"
        finally:
            whole_fabric.remove_cable(cable)
        assert whole_fabric["h1"].files("/sys/class/net/en*") == []


class TestUpAndDown:
    def test_nothing_is_left(self, own_name: str) -> None:
        before = machine()
        with Fabric(2, own_name) as own:
            ssh(own, "h1", "nohup sleep 100 >/dev/null 2>&1 & touch /root/x /etc/x /usr/x")
            own.cable("h1", "en2", "h2", "en2")
            guest = own.popen(["sleep", "100"])
            pids = [own.keeper.pid, *(host.pid for host in own.hosts)]
            namespaces = set().union(*map(namespaces_of, pids)) - namespaces_of(os.getpid())
            assert len(namespaces) == 2 + 2 * 5
            assert len(left_of(own_name, namespaces)) > 5
            assert machine() == before
        assert guest.wait(5) == -signal.SIGTERM
        assert left_of(own_name, namespaces) == []
        assert machine() == before

    def test_up_twice_is_fine_and_another_size_is_not(self, own_name: str) -> None:
        with Fabric(1, own_name) as own:
            assert Fabric(1, own_name).up() is False
            with pytest.raises(RuntimeError, match=r"wanted the fabric .* with 2 hosts, found it up with 1"):
                Fabric(2, own_name).up()
            assert ssh(own, "h1", "hostname").stdout == "h1\n"
            assert Fabric.attach(own_name).is_up()

    def test_two_fabrics_do_not_meet(self, fabric: Fabric, own_name: str) -> None:
        with Fabric(1, own_name) as own:
            assert own.subnet != fabric.subnet
            assert ssh(own, "h1", "touch /tmp/own").returncode == 0
            assert fabric["h1"].files("/tmp/own") == []

    def test_up_clears_a_dead_fabric_away(self, own_name: str) -> None:
        own = Fabric(2, own_name)
        own.up()
        first, survivor = own["h1"].identity, own["h2"].identity
        assert first is not None
        assert survivor is not None
        assert _process.kill([first, own.keeper]) == []
        with Fabric(2, own_name) as again:
            assert not survivor.alive()
            assert ssh(again, "h1", "hostname").stdout == "h1\n"

    @pytest.mark.parametrize("delay", [0.02, 0.05, 0.08, 0.11, 0.14, 0.17, 0.2])
    def test_down_works_after_up_was_killed_at_any_moment(self, own_name: str, delay: float) -> None:
        before = machine()
        with subprocess.Popen([*COMMAND, "up", "-n", "2", "--name", own_name], stdout=subprocess.DEVNULL) as upping:
            time.sleep(delay)
            upping.kill()
        subprocess.run([*COMMAND, "down", "--name", own_name], check=False, timeout=30, capture_output=True)
        # A process that was not yet recorded goes by itself, when it finds its pipe closed.
        deadline = time.monotonic() + 5
        while left := left_of(own_name):
            assert time.monotonic() < deadline, left
            time.sleep(0.02)
        assert machine() == before

    def test_a_host_that_cannot_come_up_says_why_and_leaves_nothing(
        self, own_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_host, "SSHD", ["/bin/sh", "-c", "echo no keys today >&2; exit 3"])
        with pytest.raises(RuntimeError, match=r"(?s)host h1: wanted 'ready', got error .* 3.*no keys today"):
            Fabric(1, own_name).up()
        assert left_of(own_name) == []

    @pytest.mark.parametrize("path", ["/does/not/exist", "/dev/null", "/tmp"])
    def test_what_cannot_be_exposed_is_refused(self, own_name: str, path: str) -> None:
        with pytest.raises(ValueError, match=f"wanted to expose {path}"):
            Fabric(1, own_name, expose=(path,)).up()

    def test_a_state_directory_elsewhere(self, own_name: str, tmp_path: Path) -> None:
        with Fabric(1, own_name, tmp_path / "state: a, b") as own:
            assert ssh(own, "h1", "hostname").stdout == "h1\n"
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("path", ["/var/tmp/fabric", "/usr/fabric"])
    def test_a_state_directory_that_hosts_would_see_is_refused(self, own_name: str, path: str) -> None:
        with pytest.raises(RuntimeError, match=f"wanted a place for the fabric that hosts do not see, found {path}"):
            Fabric(1, own_name, path).up()

    def test_a_pid_that_was_used_again_is_left_alone(self, own_name: str) -> None:
        own = Fabric(1, own_name)
        own.up()
        with subprocess.Popen(["sleep", "100"]) as stranger:
            own.record_host("h2", Identity(stranger.pid, 1))
            own.state["options"]["size"] = 2
            own.write_state()
            Fabric.attach(own_name).down()
            assert stranger.poll() is None
            stranger.kill()

    @pytest.mark.parametrize("name", ["", "../x", "a b", "A"])
    def test_a_bad_name_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="a fabric's name is made of"):
            Fabric(1, name)

    def test_it_is_fast(self, own_name: str) -> None:
        began = time.monotonic()
        with Fabric(4, own_name):
            up = time.monotonic() - began
            began = time.monotonic()
        down = time.monotonic() - began
        assert up < 1.5
        assert down < 0.5
