"""What a testbed is made of: boards, nodes, latencies. Values only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fognetem.matrix import LatencyMatrix, Path

from fogctl.errors import FogError


class Kind(StrEnum):
    """Where the nodes are."""

    virtual = "virtual"
    k3s = "k3s"
    sim = "sim"


class Role(StrEnum):
    """What a node is for."""

    control = "control"
    broker = "broker"
    edge = "edge"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a testbed."""

    name: str
    role: Role
    site: str
    board: str
    cpu_cores: float | None
    """CPU quota in host cores; None: not limited."""
    memory_bytes: int | None
    """Memory limit; None: not limited."""


@dataclass(frozen=True, slots=True)
class LatencyChange:
    """From `at_s` seconds after the schedule starts, the path between a and b is `path`."""

    at_s: float
    a: str
    b: str
    path: Path


@dataclass(frozen=True, slots=True)
class KafkaTls:
    """How the brokers of a Kafka prove who they are, and how we do; PEM files."""

    ca: str | None = None
    """Who is trusted; None: whom the system trusts."""
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class KafkaSasl:
    """How to log in to a Kafka."""

    mechanism: str
    username: str
    password_file: str


@dataclass(frozen=True, slots=True)
class ExternalKafka:
    """A Kafka that runs already, instead of the testbed's own broker."""

    servers: tuple[str, ...]
    tls: KafkaTls | None = None
    sasl: KafkaSasl | None = None


@dataclass(frozen=True, slots=True)
class SshHost:
    """How the machine that is a node is reached."""

    node: str
    address: str
    user: str
    port: int = 22
    key: str | None = None
    """A private key's file; None: the SSH agent's keys and the user's own."""
    data_address: str | None = None
    """Where the other nodes reach it, if not at `address`: latencies are added there, SSH stays free."""

    @property
    def reached_at(self) -> str:
        """Where the other nodes reach it."""
        return self.data_address or self.address


@dataclass(frozen=True, slots=True)
class KubeCluster:
    """The Kubernetes cluster that a testbed of kind k3s is on."""

    config: str | None = None
    """An administrator's kubeconfig; None: where `fogctl pi provision` leaves it."""
    context: str | None = None
    """None: the kubeconfig's current one."""
    storage_class: str = "local-path"
    image: str | None = None
    """What drivers, executors and the broker are started from; None: the one `fogctl image build` makes."""
    shared_storage: bool = False
    """Whether its volumes can be written by many nodes at once; stages with state need that."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """Nodes, the latencies between them, and how those change over time."""

    name: str
    kind: Kind
    nodes: tuple[Node, ...]
    latencies: LatencyMatrix
    schedule: tuple[LatencyChange, ...] = ()
    tolerance_ms: float = 2.0
    """How far a measured RTT may be off before a run is refused."""
    kafka: ExternalKafka | None = None
    """None: the embedded broker."""
    hosts: tuple[SshHost, ...] = ()
    """The machines behind the nodes, where there are real ones."""
    kube: KubeCluster = KubeCluster()
    """Where it is, if its kind is k3s."""

    def node(self, name: str) -> Node:
        """The node of that name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def require(self, name: str) -> Node:
        """The node of that name; FogError with the names there are if there is none."""
        try:
            return self.node(name)
        except KeyError:
            known = ", ".join(node.name for node in self.nodes)
            raise FogError(f"testbed {self.name} has no node {name}", hint=f"its nodes: {known}") from None

    @property
    def cpu_cores(self) -> float:
        """The sum of all CPU quotas, in host cores."""
        return sum(node.cpu_cores or 0.0 for node in self.nodes)
