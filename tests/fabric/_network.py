"""Addresses, and what is plugged into what. All of it in namespaces, nothing in the machine's own network."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from ._process import Identity

PREFIX = 24
MAX_HOSTS = 200
CONTROLLER = 254


@dataclass(frozen=True)
class Subnet:
    """One of the 256 networks of a fabric in 198.18.0.0/16 (half of the range reserved for benchmarks, RFC 2544)."""

    number: int

    def host(self, index: int) -> str:
        """Address of host `index`, counted from 1."""
        return f"198.18.{self.number}.{index}"

    @property
    def controller(self) -> str:
        """Address of the controller."""
        return self.host(CONTROLLER)

    @property
    def pattern(self) -> str:
        """For ssh_config's `Host` line."""
        return f"198.18.{self.number}.*"


@dataclass(frozen=True)
class Switch:
    """The bridge of a fabric, in the network namespace that the keeper holds open."""

    keeper: Identity
    descriptor: int

    def configure(self, *commands: str) -> None:
        """Run `ip` commands in the switch's namespace, in one go."""
        ip_batch([f"--net=/proc/{self.keeper.pid}/fd/{self.descriptor}"], commands)

    def create(self, address: str) -> None:
        """The bridge itself, and the controller's cable."""
        self.configure(
            "link set lo up",
            "link add br0 type bridge forward_delay 0 stp_state 0",
            "link set br0 up",
            f"link add pc type veth peer name eth0 netns {self.keeper.pid}",
            "link set pc master br0 up",
        )
        ip_batch(
            [f"--target={self.keeper.pid}", "--net"],
            ["link set lo up", f"address add {address}/{PREFIX} dev eth0", "link set eth0 up"],
        )

    def plug(self, hosts: dict[int, int]) -> None:
        """Connect hosts, given as index and pid, to the switch; each finds its end as eth0."""
        commands = []
        for index, pid in hosts.items():
            commands += [
                f"link add p{index} type veth peer name eth0 address {mac(index)} netns {pid}",
                f"link set p{index} master br0 up",
            ]
        self.configure(*commands)

    def unplug(self, index: int) -> None:
        """Take a host's cable away, on both ends."""
        self.configure(f"link delete p{index}")

    def set_port(self, index: int, up: bool) -> None:
        """Interrupt or restore a host's cable: the host sees a lost carrier, the others see silence."""
        self.configure(f"link set p{index} {'up' if up else 'down'}")


def mac(index: int) -> str:
    """A host keeps its hardware address over a boot, as a machine does; else the others' ARP caches would miss it."""
    return f"02:c6:12:00:00:{index:02x}"


def ip_batch(where: list[str], commands: tuple[str, ...] | list[str]) -> None:
    """Run `ip` commands in another network namespace, named by options of nsenter."""
    if not commands:
        return
    result = subprocess.run(
        ["nsenter", *where, "--", "ip", "-batch", "-"],
        input="\n".join(commands) + "\n", capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    if result.returncode:
        raise RuntimeError(
            f"ip failed in a namespace of the fabric ({' '.join(where)}): {result.stderr.strip()}; commands: {commands}"
        )
