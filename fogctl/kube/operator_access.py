"""The way in for a running testbed: a kubeconfig of its own account, for its owner only, renewed in time."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import yaml

from fogctl.errors import FAILED, FogError
from fogctl.kube import names
from fogctl.kube.access import Access
from fogctl.kube.credentials import write_private
from fogctl.kube.objects import Objects, Ref

LIFETIME_S = 90 * 24 * 3600
"""How long a token is asked to last; a cluster may give less."""
RENEW_BEFORE = 0.5
"""The part of its life after which `fogctl up` renews it."""


def kubeconfig_text(admin: Access, testbed: str, token: str) -> str:
    """A kubeconfig for the same cluster with another account."""
    settings = admin.client.configuration
    cluster: dict[str, Any] = {"server": settings.host}
    if not settings.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    elif settings.ssl_ca_cert:
        trusted = Path(settings.ssl_ca_cert).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(trusted).decode()
    if settings.tls_server_name:
        cluster["tls-server-name"] = settings.tls_server_name
    name = names.namespace(testbed)
    context = {"cluster": name, "user": names.OPERATOR, "namespace": name}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": names.OPERATOR, "user": {"token": token}}],
            "contexts": [{"name": name, "context": context}],
            "current-context": name,
        },
        sort_keys=False,
    )


def usable(folder: Path, admin: Access, account_uid: str, now_s: float | None = None) -> bool:
    """Whether the kubeconfig is there, leads to this cluster, is of this very account and lasts a while."""
    file = Access.restricted(folder).kubeconfig
    try:
        found = yaml.safe_load(file.read_text())
        claims = claims_of(found["users"][0]["user"]["token"])
        server = found["clusters"][0]["cluster"]["server"]
        uid = claims["kubernetes.io"]["serviceaccount"]["uid"]
        begins, ends = float(claims["iat"]), float(claims["exp"])
    except (OSError, ValueError, KeyError, IndexError, TypeError, yaml.YAMLError):
        return False
    if file.stat().st_mode & 0o077 or server != admin.url or uid != account_uid:
        return False
    now = time.time() if now_s is None else now_s
    return now < begins + (ends - begins) * RENEW_BEFORE


def write(folder: Path, objects: Objects, testbed: str) -> None:
    """Have the cluster make a token for the testbed's account and keep it."""
    account = Ref("ServiceAccount", names.OPERATOR, names.namespace(testbed))
    answer = objects.ask(
        "token",
        f"{account.path}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME_S},
        },
    )
    token = (answer.get("status") or {}).get("token")
    if not token:
        raise FogError("the cluster gave no token for the testbed's account", exit_code=FAILED)
    write_private(Access.restricted(folder).kubeconfig, kubeconfig_text(objects.access, testbed, token))


def claims_of(token: str) -> dict[str, Any]:
    """What a token says of itself, not verified: the cluster does that. ValueError if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("not a token")
    body = parts[1] + "=" * (-len(parts[1]) % 4)
    found = json.loads(base64.urlsafe_b64decode(body))
    if not isinstance(found, dict):
        raise ValueError("not a token")
    return found
