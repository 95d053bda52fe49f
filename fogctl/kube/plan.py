"""What a testbed consists of on its cluster: a list of parts, in the order in which they are made. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from fogctl.kube import broker, credentials, names, rbac
from fogctl.kube.access import Manifest
from fogctl.kube.credentials import Credentials
from fogctl.kube.ledger import Entry, NodeLabel
from fogctl.kube.objects import Ref
from fogctl.testbed.model import Testbed

STATE_SIZE = "2Gi"
"""For checkpoints; a storage class that hands out folders does not enforce it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing on the cluster: what the ledger calls it, and what it looks like."""

    entry: Ref | NodeLabel
    manifest: Manifest = field(default_factory=dict)
    """Empty for a label."""

    def describe(self) -> str:
        """In a few words."""
        return self.entry.describe()


def plan(testbed: Testbed, given: Credentials) -> list[Part]:
    """Every part of the testbed. The same testbed and secrets give the same plan."""
    image = testbed.kube.image or names.DEFAULT_IMAGE
    storage = testbed.kube.storage_class
    objects = [
        _namespace(testbed),
        *rbac.manifests(testbed),
        credentials.manifest(testbed, given),
        broker.claim(testbed, names.STATE_CLAIM, storage, STATE_SIZE, shared=testbed.kube.shared_storage),
        *broker.manifests(testbed, storage, image),
    ]
    labels = [Part(NodeLabel(node.name, names.TESTBED, testbed.name)) for node in testbed.nodes]
    parts = [Part(Ref.of(manifest), _digested(manifest)) for manifest in objects]
    # Nodes are labelled once the namespace is there: whoever finds a label finds whose it is.
    return [parts[0], *labels, *parts[1:]]


def up_to_date(found: Manifest, wanted: Manifest) -> bool:
    """Whether an object that is there was made from this very manifest."""
    return _digest_of(found) == _digest_of(wanted)


def outdated(held: tuple[Entry, ...], wanted: list[Part]) -> list[Entry]:
    """What the ledger holds of objects and labels and the plan does not, newest first."""
    keep = {part.entry for part in wanted}
    return [entry for entry in reversed(held) if isinstance(entry, Ref | NodeLabel) and entry not in keep]


def _namespace(testbed: Testbed) -> Manifest:
    # Nodes' own addresses carry the latencies, so pods use the nodes' network: that is a privilege.
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    about = {"name": names.namespace(testbed.name), "labels": names.labels(testbed.name) | level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": about}


def _digested(manifest: Manifest) -> Manifest:
    text = json.dumps(manifest, sort_keys=True).encode()
    note = {names.DIGEST: hashlib.sha256(text).hexdigest()[:32]}
    return manifest | {"metadata": manifest["metadata"] | {"annotations": note}}


def _digest_of(manifest: Manifest) -> str | None:
    found = (manifest.get("metadata", {}).get("annotations") or {}).get(names.DIGEST)
    return None if found is None else str(found)
