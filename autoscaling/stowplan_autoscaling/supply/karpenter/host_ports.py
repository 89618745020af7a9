"""Host ports of the pods on one node: each combination of address, port and protocol only once.

Follows pkg/scheduling/hostportusage.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stowplan_scheduler.cache.node_info import ANY_ADDRESS
from stowplan_scheduler.objects import PodSpec

_ANY: Final = frozenset({ANY_ADDRESS, "::"})


class HostPort(NamedTuple):
    """A port of the host; the unspecified addresses take all of them."""

    address: str
    port: int
    protocol: str

    def conflicts(self, other: HostPort) -> bool:
        """Whether the two cannot be had together."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or not _ANY.isdisjoint((self.address, other.address))


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers; those of init containers do not count."""
    return tuple(
        HostPort(port.host_ip or ANY_ADDRESS, port.host_port, port.protocol)
        for container in spec.containers
        for port in container.ports
        if port.host_port
    )


class PortUse:
    """Who uses which host ports of a node."""

    __slots__ = ("_by_pod",)

    def __init__(self, by_pod: Iterable[tuple[str, tuple[HostPort, ...]]] = ()) -> None:
        self._by_pod = dict(by_pod)

    def copy(self) -> PortUse:
        """One that can change on its own."""
        return PortUse(self._by_pod.items())

    def add(self, pod: str, ports: tuple[HostPort, ...]) -> None:
        """A pod, by key, uses ports."""
        if ports:
            self._by_pod[pod] = ports

    def conflicts(self, pod: str, ports: tuple[HostPort, ...]) -> bool:
        """Whether another pod has one of the ports."""
        return any(
            mine.conflicts(theirs)
            for mine in ports
            for key, taken in self._by_pod.items()
            if key != pod
            for theirs in taken
        )
