"""The folder in which fogctl remembers a testbed: what it is, what is injected, what was changed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fognetem.matrix import LatencyMatrix
from fognetem.matrix import Path as NetworkPath

from fogctl.errors import FAILED, FogError
from fogctl.testbed.model import (
    ExternalKafka,
    KafkaSasl,
    KafkaTls,
    Kind,
    KubeCluster,
    LatencyChange,
    Node,
    Role,
    SshHost,
    Testbed,
)

DEFAULT_STATE_DIR = "/var/lib/fogctl"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def state_dir() -> Path:
    """Where the folders of all testbeds are: $FOGCTL_STATE_DIR, /var/lib/fogctl, or the user's own place.

    Without root it is the user's own, which is enough for testbeds that need no root; as long as nothing is
    there, what root has brought up can still be looked at.
    """
    own = writable_state_dir()
    system = Path(DEFAULT_STATE_DIR)
    if own != system and "FOGCTL_STATE_DIR" not in os.environ and not remembered(own) and remembered(system):
        return system
    return own


def writable_state_dir() -> Path:
    """The same, for who brings a testbed up: one that this user can write to."""
    if chosen := os.environ.get("FOGCTL_STATE_DIR"):
        return Path(chosen).absolute()
    system = Path(DEFAULT_STATE_DIR)
    if os.access(system if system.exists() else system.parent, os.W_OK):
        return system
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state").absolute() / "fogctl"


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a testbed that is up, or half-way there."""

    testbed: Testbed
    latencies: LatencyMatrix
    """As injected now: the testbed's own, until somebody changed them live."""
    backend: str | None
    """How they are injected: kernel or userspace; None: not at all."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder of one testbed and the files in it."""

    folder: Path

    @classmethod
    def of(cls, testbed: str, parent: Path) -> StateFolder:
        """The folder of a testbed of that name, which need not exist."""
        if not NAME.fullmatch(testbed):
            raise FogError(f"{testbed!r} is neither a file nor the name of a testbed")
        return cls(parent / testbed)

    @property
    def name(self) -> str:
        """The testbed's name."""
        return self.folder.name

    @property
    def ledger(self) -> Path:
        """Every change made to the host."""
        return self.folder / "ledger.jsonl"

    @property
    def record(self) -> Path:
        """The testbed's description, as JSON."""
        return self.folder / "testbed.json"

    @property
    def network(self) -> Path:
        """Where the latency emulation keeps its socket and files."""
        return self.folder / "net"

    @property
    def exists(self) -> bool:
        """Whether fogctl remembers anything of the testbed."""
        return self.folder.is_dir()

    @property
    def kind(self) -> Kind | None:
        """The testbed's kind, even if a record of another version says the rest; None: it says none."""
        try:
            return Kind(json.loads(self.record.read_text())["kind"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remove(self) -> None:
        """Remove the folder, and its parent if no other testbed is left there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:
            return

    def save(self, record: Record) -> None:
        """Write the record in one piece: a reader sees the old or the new one."""
        fresh = self.record.with_suffix(".new")
        fresh.write_text(json.dumps(to_json(record), indent=1))
        fresh.replace(self.record)

    def load(self) -> Record:
        """Read the record back."""
        try:
            return from_json(json.loads(self.record.read_text()))
        except FileNotFoundError:
            raise FogError(
                f"testbed {self.name} is not up", hint="fogctl up brings it up", exit_code=FAILED
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise FogError(
                f"not a testbed record of this version of fogctl: {error}",
                file=self.record,
                hint="fogctl down, then fogctl up",
                exit_code=FAILED,
            ) from None


def remembered(parent: Path) -> list[StateFolder]:
    """Every testbed with a folder in the state directory."""
    if not parent.is_dir():
        return []
    return [
        StateFolder(path) for path in sorted(parent.iterdir()) if path.is_dir() and NAME.fullmatch(path.name)
    ]


def to_json(record: Record) -> dict[str, Any]:
    """A record as plain JSON values."""
    testbed = record.testbed
    return {
        "name": testbed.name,
        "kind": testbed.kind.value,
        "nodes": [dataclasses.asdict(node) for node in testbed.nodes],
        "latencies": testbed.latencies.to_dict(),
        "schedule": [
            {"at_s": change.at_s, "a": change.a, "b": change.b, "path": dataclasses.asdict(change.path)}
            for change in testbed.schedule
        ],
        "tolerance_ms": testbed.tolerance_ms,
        "kafka": None if testbed.kafka is None else dataclasses.asdict(testbed.kafka),
        "hosts": [dataclasses.asdict(host) for host in testbed.hosts],
        "kube": dataclasses.asdict(testbed.kube),
        "injected": record.latencies.to_dict(),
        "backend": record.backend,
    }


def from_json(data: dict[str, Any]) -> Record:
    """The inverse of `to_json`."""
    testbed = Testbed(
        name=data["name"],
        kind=Kind(data["kind"]),
        nodes=tuple(Node(**{**node, "role": Role(node["role"])}) for node in data["nodes"]),
        latencies=LatencyMatrix.from_dict(data["latencies"]),
        schedule=tuple(
            LatencyChange(entry["at_s"], entry["a"], entry["b"], NetworkPath(**entry["path"]))
            for entry in data["schedule"]
        ),
        tolerance_ms=data["tolerance_ms"],
        kafka=_kafka(data.get("kafka")),
        hosts=tuple(SshHost(**host) for host in data.get("hosts", ())),
        kube=KubeCluster(**data.get("kube", {})),
    )
    return Record(testbed, LatencyMatrix.from_dict(data["injected"]), data["backend"])


def _kafka(data: dict[str, Any] | None) -> ExternalKafka | None:
    if data is None:
        return None
    tls, sasl = data["tls"], data["sasl"]
    return ExternalKafka(
        tuple(data["servers"]),
        None if tls is None else KafkaTls(**tls),
        None if sasl is None else KafkaSasl(**sasl),
    )
