"""The `kube:` section of testbed.yaml: the Kubernetes cluster that a testbed of kind k3s is on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from fogctl.config.fields import Entry
from fogctl.config.units import quoted
from fogctl.testbed.model import KubeCluster

_CLASS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
# Registry, path and tag or digest; what containerd takes, without spaces and without a leading dash.
_IMAGE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@-]{0,254}")


def _storage_class(raw: object) -> str:
    if not isinstance(raw, str) or not _CLASS.fullmatch(raw):
        raise ValueError(f"{quoted(str(raw))} is not the name of a storage class (see: kubectl get sc)")
    return raw


def _image(raw: object) -> str:
    if not isinstance(raw, str) or not _IMAGE.fullmatch(raw):
        raise ValueError(f"{quoted(str(raw))} is not an image (write for example localhost/fogctl-stage:1.0)")
    return raw


class KubeEntry(Entry):
    """Where the cluster is and what it offers."""

    config: str | None = Field(
        default=None,
        min_length=1,
        description="an administrator's kubeconfig, relative to this file; "
        "default: where `fogctl pi provision` leaves it",
        examples=["~/.kube/config"],
    )
    context: str | None = Field(
        default=None,
        min_length=1,
        description="of the kubeconfig; default: its current one",
        examples=["lab"],
    )
    storage_class: Annotated[
        str,
        BeforeValidator(_storage_class),
        WithJsonSchema({"type": "string", "pattern": f"^{_CLASS.pattern}$"}),
    ] = Field(
        default=KubeCluster().storage_class,
        description="of the volumes for checkpoints and the broker's log",
        examples=["local-path"],
    )
    image: (
        Annotated[
            str,
            BeforeValidator(_image),
            WithJsonSchema({"type": "string", "pattern": f"^{_IMAGE.pattern}$"}),
        ]
        | None
    ) = Field(
        default=None,
        description="what drivers, executors and the broker are started from; default: the one `fogctl image "
        "build` makes",
        examples=["localhost/fogctl-stage:1.0"],
    )
    shared_storage: bool = Field(
        default=False,
        description="whether the storage class gives volumes that many nodes can write at once (NFS, for "
        "example); stages with state need one",
    )


def cluster(entry: KubeEntry | None, folder: Path) -> KubeCluster:
    """The cluster of an entry, its kubeconfig as a whole path."""
    if entry is None:
        return KubeCluster()
    config = entry.config
    if config is not None:
        config = str((folder / Path(config.replace("\0", "")).expanduser()).absolute())
    return KubeCluster(config, entry.context, entry.storage_class, entry.image, entry.shared_storage)
