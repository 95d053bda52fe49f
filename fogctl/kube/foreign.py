"""What others have put into a testbed's namespace: removing the namespace would remove it too."""

from __future__ import annotations

import json
from typing import Any

from fogctl.kube import names
from fogctl.kube.objects import Objects, patiently

_MADE_BY_THE_CLUSTER = {
    ("ServiceAccount", "default"),
    ("ConfigMap", "kube-root-ca.crt"),
}
_PASSING = {"events", "bindings", "leases", "localsubjectaccessreviews", "endpoints", "endpointslices"}
"""Kinds that come and go by themselves."""
_SPARK = "spark-app-selector"
"""What our drivers make carries Spark's own label."""


def inside(objects: Objects, space: str, testbed: str) -> list[str]:
    """Objects in the namespace that are neither ours nor made for ours, in words."""
    found: list[str] = []
    for path, kind in _listable(objects):
        with objects.access.sentences(f"looking what is in {space}"):
            items = _items(objects, f"{path}/namespaces/{space}/{kind['name']}")
        found += [
            f"{kind['kind']} {about['name']}"
            for about in (item["metadata"] for item in items)
            if _is_strange(kind["kind"], about, testbed)
        ]
    return found


def _is_strange(kind: str, about: dict[str, Any], testbed: str) -> bool:
    labels = about.get("labels") or {}
    return not (
        names.is_ours(labels, testbed)
        or about.get("ownerReferences")
        or _SPARK in labels
        or (kind, about["name"]) in _MADE_BY_THE_CLUSTER
    )


def _listable(objects: Objects) -> list[tuple[str, dict[str, Any]]]:
    """Every kind of object that lives in a namespace, by the path of its API."""
    access = objects.access
    with access.sentences("asking which kinds of objects there are"):
        groups = patiently(lambda: access.request("GET", "/apis"), objects.patience_s).get("groups") or []
        paths = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
        kinds = []
        for path in paths:
            for kind in _resources(objects, path):
                if kind["namespaced"] and "list" in kind["verbs"] and "delete" in kind["verbs"]:
                    kinds.append((path, kind))
    return [(path, kind) for path, kind in kinds if kind["name"] not in _PASSING and "/" not in kind["name"]]


def _resources(objects: Objects, path: str) -> list[dict[str, Any]]:
    """The kinds of one API; none where the server behind it does not answer, as an aggregated one may."""
    from kubernetes.client.exceptions import ApiException

    try:
        found = patiently(lambda: objects.access.request("GET", path), objects.patience_s)
        return list(found.get("resources") or [])
    except ApiException as error:
        if error.status in (404, 503):
            return []
        raise


def _items(objects: Objects, path: str) -> list[dict[str, Any]]:
    """All of one kind in the namespace, metadata only; none if there is no such namespace any more."""
    from kubernetes.client.exceptions import ApiException

    form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    try:
        answer = patiently(
            lambda: objects.access.raw("GET", path, headers={"Accept": form}).read(), objects.patience_s
        )
        return list(json.loads(answer).get("items") or [])
    except ApiException as error:
        if error.status in (404, 405):
            return []
        raise
