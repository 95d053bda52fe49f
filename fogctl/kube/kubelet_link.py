"""Asking kubelets for their pages: at the node itself, as the testbed's own account.

Not through the API server: the right to its way there (`nodes/proxy`) would let one run commands in any pod.
"""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fogctl.errors import FogError, NoAnswerError
from fogctl.kube.nodes import NodeState

PAGE = "/metrics/cadvisor"
SUMMARY = "/stats/summary?only_cpu_and_memory=true"


@dataclass(frozen=True, slots=True)
class Account:
    """What a kubeconfig holds: whom to trust, and as whom to come."""

    authority: str | None
    """PEM; None: whom the system trusts."""
    token: str
    verify: bool = True


def account_of(kubeconfig: Path) -> Account:
    """Those of a testbed's own kubeconfig, which `fogctl up` writes; FogError if it cannot be read."""
    try:
        found = yaml.safe_load(kubeconfig.read_text())
        cluster = found["clusters"][0]["cluster"]
        authority = cluster.get("certificate-authority-data")
        return Account(
            None if authority is None else base64.b64decode(authority).decode(),
            found["users"][0]["user"]["token"],
            not cluster.get("insecure-skip-tls-verify", False),
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError, yaml.YAMLError) as error:
        raise FogError(
            f"not the kubeconfig of a testbed: {error}", file=kubeconfig, hint="fogctl up writes it anew"
        ) from error


@dataclass(slots=True)
class KubeletLink:
    """Connections to the kubelets of a testbed."""

    kubeconfig: Path
    timeout_s: float = 5.0
    _pool: Any = field(default=None, repr=False)
    _token: str = field(default="", repr=False)
    _made_of: float = field(default=0.0, repr=False)

    def get(self, node: NodeState, page: str) -> str:
        """A page of a node's kubelet; NoAnswerError in a sentence if it does not answer or refuses."""
        import urllib3
        from urllib3.exceptions import HTTPError

        host = f"[{node.address}]" if ":" in node.address else node.address
        try:
            answer = self._connections().request(
                "GET",
                f"https://{host}:{node.kubelet_port}{page}",
                headers={"Authorization": f"Bearer {self._token}"},
                timeout=urllib3.Timeout(total=self.timeout_s),
                retries=False,
                redirect=False,
            )
        except (HTTPError, OSError) as error:
            raise NoAnswerError(_why(node, error)) from error
        if answer.status != 200:
            raise NoAnswerError(f"the kubelet of {node.name} refuses {page}: {answer.status} {answer.reason}")
        return str(answer.data.decode(errors="replace"))

    def _connections(self) -> Any:
        """Connections with the newest credentials: `fogctl up` renews them before they expire."""
        import urllib3

        written = self.kubeconfig.stat().st_mtime if self.kubeconfig.exists() else 0.0
        if self._pool is None or written != self._made_of:
            found = account_of(self.kubeconfig)
            context = ssl.create_default_context(cadata=found.authority)
            if not found.verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._pool = urllib3.PoolManager(ssl_context=context, maxsize=2)
            self._token, self._made_of = found.token, written
        return self._pool


def _why(node: NodeState, error: BaseException) -> str:
    text = str(getattr(error, "reason", None) or error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            f"the kubelet of {node.name} at {node.address} shows a certificate that the cluster's own "
            "authority did not sign"
        )
    return f"the kubelet of {node.name} at {node.address}:{node.kubelet_port} does not answer"
