"""Objects of a cluster by kind, name and namespace: read, made, changed and removed as plain JSON values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from fogctl.errors import FAILED, FogError
from fogctl.kube.access import MERGE, Access, Manifest

_CORE = "/api/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
RESOURCES = {
    "Namespace": (_CORE, "namespaces"),
    "Node": (_CORE, "nodes"),
    "ServiceAccount": (_CORE, "serviceaccounts"),
    "Secret": (_CORE, "secrets"),
    "ConfigMap": (_CORE, "configmaps"),
    "Service": (_CORE, "services"),
    "Pod": (_CORE, "pods"),
    "Event": (_CORE, "events"),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "Job": ("/apis/batch/v1", "jobs"),
    "Role": (_RBAC, "roles"),
    "RoleBinding": (_RBAC, "rolebindings"),
    "ClusterRole": (_RBAC, "clusterroles"),
    "ClusterRoleBinding": (_RBAC, "clusterrolebindings"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
}
"""By kind: the API it is in, and its name there."""
_NAMESPACE_TROUBLE = (
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
    "NamespaceDeletionDiscoveryFailure",
)
_PAUSE_S = 0.25
_PAGE = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ref:
    """One object's identity; the ledger holds these."""

    kind: str
    name: str
    namespace: str = ""
    """Empty for what belongs to no namespace."""

    @classmethod
    def of(cls, manifest: Manifest) -> Ref:
        """The identity of a manifest."""
        about = manifest["metadata"]
        return cls(manifest["kind"], about["name"], about.get("namespace", ""))

    @property
    def collection(self) -> str:
        """The path of all of its kind."""
        return collection(self.kind, self.namespace)

    @property
    def path(self) -> str:
        """The path of the object itself."""
        return f"{self.collection}/{quote(self.name, safe='')}"

    def describe(self) -> str:
        """In a few words."""
        return f"{self.kind} {self.name}" + (f" in {self.namespace}" if self.namespace else "")


def collection(kind: str, namespace: str = "") -> str:
    """The path of all objects of a kind, in one namespace or everywhere."""
    api, plural = RESOURCES[kind]
    return f"{api}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{api}/{plural}"


class Objects:
    """What there is on a cluster. With patience, an API server that restarts is waited for."""

    def __init__(self, access: Access, patience_s: float = 0.0) -> None:
        self.access = access
        self.patience_s = patience_s

    def get(self, ref: Ref) -> Manifest | None:
        """The object; None if there is none."""
        found = self._call("GET", ref.path, doing=f"looking at {ref.describe()}", absent=404)
        return None if found is None else dict(found)

    def list(self, kind: str, namespace: str = "", selector: str = "", fields: str = "") -> list[Manifest]:
        """All objects of a kind, in one namespace or everywhere, that have these labels and fields."""
        query = {"limit": str(_PAGE)}
        if selector:
            query["labelSelector"] = selector
        if fields:
            query["fieldSelector"] = fields
        found: list[Manifest] = []
        while True:
            path = collection(kind, namespace)
            page = self._call("GET", path, query=query, doing=f"listing {RESOURCES[kind][1]}")
            found += page.get("items") or []
            after = page.get("metadata", {}).get("continue")
            if not after:
                return found
            query["continue"] = after

    def create(self, manifest: Manifest) -> bool:
        """Make it; False if something of that name is there already."""
        ref = Ref.of(manifest)
        doing = f"making {ref.describe()}"
        return self._call("POST", ref.collection, manifest, doing=doing, absent=409) is not None

    def patch(self, ref: Ref, body: Any, content_type: str = MERGE, subresource: str = "") -> Manifest | None:
        """Change parts of it; None if it is gone."""
        path = f"{ref.path}/{subresource}" if subresource else ref.path
        changed = self._call(
            "PATCH", path, body, doing=f"changing {ref.describe()}", content_type=content_type, absent=404
        )
        return None if changed is None else dict(changed)

    def delete(self, ref: Ref, uid: str | None = None, grace_s: int | None = None) -> bool:
        """Have it removed, together with what it controls; False if it is gone, or if its place was taken.

        With `uid` only exactly that one is removed, never a later one of the same name.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        doing = f"removing {ref.describe()}"
        done = self._call("DELETE", ref.path, options, doing=doing, absent=404)
        return done is not None

    def wait_gone(self, ref: Ref, patience_s: float, uid: str | None = None) -> None:
        """Return when it is gone, or another has its name; FogError if that takes too long."""
        deadline = time.monotonic() + patience_s
        pause_s = 0.05
        while (found := self.get(ref)) is not None:
            if uid is not None and found["metadata"].get("uid") != uid:
                return
            if time.monotonic() > deadline:
                raise FogError(
                    f"{ref.describe()} is still being removed after {patience_s:.0f} s{_held_by(found)}",
                    hint="run it again to go on waiting",
                    exit_code=FAILED,
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def ask(self, kind: str, api: str, body: Manifest) -> Manifest:
        """Post a question (an access review, a token request) and give back the answer."""
        return dict(self._call("POST", api, body, doing=f"asking for a {kind}"))

    def _call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        doing: str,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        absent: int | None = None,
    ) -> Any:
        """One call; None if the answer is the status `absent`."""
        from kubernetes.client.exceptions import ApiException

        def once() -> Any:
            try:
                return self.access.request(method, path, body, query, content_type)
            except ApiException as error:
                if error.status == absent:
                    return None
                raise

        with self.access.sentences(doing):
            return patiently(once, self.patience_s)


def patiently(call: Callable[[], T], patience_s: float) -> T:
    """What a call answers; while the API server is away for a moment, it is asked again."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except Exception as error:
            if not _passes(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def _passes(error: Exception) -> bool:
    """Whether a failure is one that goes by itself: no connection, or a server that is not ready."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError, SSLError

    if isinstance(error, ApiException):
        return error.status == 429 or (error.status or 0) >= 500
    return isinstance(error, HTTPError | ConnectionError) and not isinstance(error, SSLError)


def _held_by(found: Manifest) -> str:
    """Why something does not go, if it says so."""
    for condition in found.get("status", {}).get("conditions") or []:
        telling = condition.get("type") in _NAMESPACE_TROUBLE and condition.get("status") == "True"
        if telling and condition.get("message"):
            return f": {condition['message']}"
    held = found.get("metadata", {}).get("finalizers") or found.get("spec", {}).get("finalizers")
    return f": held by {', '.join(held)}" if held else ""
