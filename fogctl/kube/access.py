"""The way into a cluster: a kubeconfig, an API client made from it, and its failures as sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from fogctl.errors import FAILED, REFUSED, FogError, NoAnswerError
from fogctl.pi.known_hosts import settings_folder
from fogctl.testbed.model import Testbed

PATIENCE_S = 20.0
"""How long one answer of the API server may take."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Manifest = dict[str, Any]
"""A Kubernetes object as plain JSON values."""


def default_kubeconfig(testbed: str) -> Path:
    """Where `fogctl pi provision` leaves the way into a testbed's cluster, for its owner only."""
    return settings_folder() / "kube" / f"{testbed}.yaml"


class Access:
    """One account on one cluster. The client is made when it is first needed."""

    def __init__(self, kubeconfig: Path, context: str | None = None) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self._client: Any = None

    @classmethod
    def admin(cls, testbed: Testbed) -> Access:
        """The account that brings the testbed up and takes it down: the user's own kubeconfig."""
        given = testbed.kube.config
        return cls(Path(given) if given else default_kubeconfig(testbed.name), testbed.kube.context)

    @classmethod
    def restricted(cls, folder: Path) -> Access:
        """The account `fog-operator` of a testbed that is up: all that may be done while it runs."""
        return cls(folder / "kubeconfig.yaml")

    @property
    def client(self) -> Any:
        """A `kubernetes.client.ApiClient`; FogError if the kubeconfig cannot be used."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    @property
    def url(self) -> str:
        """Where the API server is."""
        return str(self.client.configuration.host)

    @property
    def core(self) -> Any:
        """Pods, nodes, Secrets, …: `kubernetes.client.CoreV1Api`."""
        from kubernetes import client

        return client.CoreV1Api(self.client)

    @property
    def apps(self) -> Any:
        """StatefulSets: `kubernetes.client.AppsV1Api`."""
        from kubernetes import client

        return client.AppsV1Api(self.client)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = PATIENCE_S,
    ) -> Any:
        """One call of the REST API in plain JSON values; raises the client's own exceptions."""
        answer = self.raw(method, path, body, query, content_type, timeout_s)
        return json.loads(answer.read() or b"null")

    def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = PATIENCE_S,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The same, but what comes back is the response, to be `read()` whole or by `response.stream()`."""
        from kubernetes.client.exceptions import ApiException

        sent = {"Accept": "application/json", "Content-Type": content_type, **(headers or {})}
        call = self.client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params=sent,
            auth_settings=["BearerToken"],
        )
        answer = self.client.rest_client.request(
            call[0], call[1], headers=call[2], body=body, _request_timeout=timeout_s
        )
        if not 200 <= answer.status <= 299:
            answer.read()
            raise ApiException(http_resp=answer)
        return answer

    @contextmanager
    def sentences(self, doing: str = "") -> Iterator[None]:
        """What is expected to go wrong with a cluster, as one sentence; `doing` says what was tried."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except ApiException as error:
            if not error.status:  # the client's own, of a connection that was never made
                raise _unreachable(error, self) from error
            raise _refused(error, doing, self) from error
        except (HTTPError, OSError) as error:
            raise _unreachable(error, self) from error

    def close(self) -> None:
        """End its connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connect(self) -> Any:
        from kubernetes import client, config
        from kubernetes.config import ConfigException

        if not self.kubeconfig.is_file():
            raise FogError(
                "there is no kubeconfig, so the cluster cannot be reached",
                file=self.kubeconfig,
                hint="fogctl pi provision leaves one; for another cluster give kube: {config: FILE}",
                exit_code=FAILED,
            )
        settings = client.Configuration()
        settings.retries = False  # whoever can wait says so himself
        try:
            return config.new_client_from_config(  # type: ignore[no-untyped-call]
                config_file=str(self.kubeconfig),
                context=self.context,
                persist_config=False,
                client_configuration=settings,
            )
        except ConfigException as error:
            raise FogError(f"not a usable kubeconfig: {error}", file=self.kubeconfig) from error
        except (OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())
            raise FogError(
                f"not a kubeconfig: {why}", file=self.kubeconfig, hint="kubectl config view checks it"
            ) from error


def message_of(error: Any) -> str:
    """What the API server said, without the wrapping."""
    try:
        said = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        said = error.reason or error
    return str(said).strip()


def _refused(error: Any, doing: str, access: Access) -> FogError:
    said = message_of(error)
    did = f"{doing}: " if doing else ""
    if error.status == 401:
        return FogError(
            f"the cluster at {access.url} does not accept the credentials in {access.kubeconfig}",
            hint="they are wrong, or have expired: get a new kubeconfig; fogctl up renews the testbed's own",
            exit_code=REFUSED,
        )
    if error.status == 403:
        return FogError(
            f"{did}the cluster does not permit it: {said}",
            hint="fogctl doctor says which permissions are lacking",
            exit_code=REFUSED,
        )
    # What an API server says while it starts, or while its store or a node behind it does not answer.
    kind = NoAnswerError if error.status == 429 or error.status >= 500 else FogError
    return kind(f"{did}the cluster answers: {said}", exit_code=FAILED)


def _unreachable(error: BaseException, access: Access) -> FogError:
    text = str(getattr(error, "reason", None) or error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return FogError(
            f"the certificate of {access.url} is not one that {access.kubeconfig} trusts",
            hint="another cluster answers there, or its certificates were renewed: get its kubeconfig anew",
            exit_code=REFUSED,
        )
    return NoAnswerError(
        f"the cluster at {access.url} cannot be reached: {_short(text)}",
        hint="is the control node switched on, and is this the right network?",
        exit_code=FAILED,
    )


def _short(text: str) -> str:
    """The last part of a chain of connection errors, which is the one that says something."""
    for known, said in (
        ("Connection refused", "nothing listens there"),
        ("Name or service not known", "its name is not known"),
        ("No route to host", "there is no route"),
        ("timed out", "it does not answer in time"),
        ("Connection reset", "it ended the connection"),
        ("Remote end closed", "it ended the connection"),
    ):
        if known in text:
            return said
    return text.rpartition(": ")[2].strip("'\")> ") or text
