"""Cables between two hosts that do not go through the switch: what Thunderbolt is to a Mac.

A cable is a bridge of its own with two ports in the switch's namespace, rather than one veth pair from host to host: so
when one host loses its power the other keeps its interface and its configuration, and only loses the carrier.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._fabric import Fabric

End = tuple[str, str]


@dataclass(frozen=True)
class Cable:
    """A number, unique in its fabric, and two ends, each a host's name and an interface on it."""

    number: int
    one: End
    other: End

    def listed(self) -> list[object]:
        """As JSON keeps it."""
        return [self.number, list(self.one), list(self.other)]

    def ports(self) -> dict[End, str]:
        """The switch side of both ends."""
        return {self.one: f"x{self.number}a", self.other: f"x{self.number}b"}


class Cables:
    """The cables of a fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def all(self) -> list[Cable]:
        """All that are laid, plugged in or not."""
        return [Cable(number, tuple(one), tuple(other)) for number, one, other in self._fabric.state["cables"]]

    def lay(self, one: End, other: End) -> Cable:
        """Lay a cable and plug in both ends. The interfaces are down and have no address, as on a new machine."""
        taken = {end for cable in self.all() for end in (cable.one, cable.other)}
        if one == other or taken & {one, other}:
            raise ValueError(f"wanted a cable from {one} to {other}, but an interface can have one cable only")
        cable = Cable(max((cable.number for cable in self.all()), default=0) + 1, one, other)
        self._fabric.switch.configure(
            f"link add x{cable.number} type bridge forward_delay 0 stp_state 0",
            f"link set x{cable.number} up",
            *(command for end in cable.ports() for command in self._plug(cable, end)),
        )
        self._fabric.state["cables"].append(cable.listed())
        self._fabric.write_state()
        return cable

    def remove(self, cable: Cable) -> None:
        """Take a cable away; the interfaces go with it."""
        ports = [port for (host, _), port in cable.ports().items() if self._on(host)]
        self._fabric.switch.configure(*(f"link delete {port}" for port in ports), f"link delete x{cable.number}")
        self._fabric.state["cables"].remove(cable.listed())
        self._fabric.write_state()

    def plug(self, hosts: Sequence[str]) -> None:
        """These hosts come up: plug in what belongs to them, and give the other end its carrier."""
        self._fabric.switch.configure(
            *(
                command
                for cable in self.all()
                for end in cable.ports()
                for command in (self._plug(cable, end) if end[0] in hosts else self._carrier(cable, end, hosts, "up"))
            )
        )

    def unplug(self, host: str) -> None:
        """This host goes: its ends go with it, and the other ends lose their carrier."""
        self._fabric.switch.configure(
            *(
                command
                for cable in self.all()
                for end, port in cable.ports().items()
                for command in (
                    [f"link delete {port}"] if end[0] == host else self._carrier(cable, end, [host], "down")
                )
            )
        )

    def _plug(self, cable: Cable, end: End) -> list[str]:
        host, interface = end
        port = cable.ports()[end]
        pid = self._fabric[host].pid
        mac = "02:c6:13:" + ":".join(
            f"{byte:02x}" for byte in zlib.crc32(f"{host} {interface}".encode()).to_bytes(4)[1:]
        )
        return [
            f"link add {port} type veth peer name {interface} address {mac} netns {pid}",
            f"link set {port} master x{cable.number} up",
        ]

    def _carrier(self, cable: Cable, end: End, partners: Sequence[str], state: str) -> list[str]:
        """Commands for the far end of a cable to one of `partners`."""
        partner = cable.other if end == cable.one else cable.one
        return [f"link set {cable.ports()[end]} {state}"] if partner[0] in partners and self._on(end[0]) else []

    def _on(self, host: str) -> bool:
        identity = self._fabric[host].identity
        return identity is not None and identity.alive()
