"""The API server as a pod reaches it: address and account from where Kubernetes puts them. No packages."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S = 10.0


def url() -> str:
    """Where the API server is."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def request(
    method: str,
    path: str,
    body: Any = None,
    query: dict[str, str] | None = None,
    content_type: str = "application/json",
) -> Any:
    """One call as the pod's own account; OSError if it fails, FileNotFoundError if nothing is there."""
    # Read each time: the kubelet puts a new token there before the old one expires.
    token = (ACCOUNT / "token").read_text().strip()
    call = urllib.request.Request(
        f"{url()}{path}" + (f"?{urlencode(query)}" if query else ""),
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Content-Type": content_type,
        },
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(call, timeout=_TIMEOUT_S, context=trust) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")[:500]
        kind = FileNotFoundError if error.code == HTTPStatus.NOT_FOUND else OSError
        raise kind(f"{method} {path}: {error.code} {said}") from error
