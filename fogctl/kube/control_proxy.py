"""Asking a stage's runner in its pod, through the API server's proxy, with the testbed's token."""

from __future__ import annotations

import json
from typing import Any

from fogctl.errors import FAILED, NoAnswerError
from fogctl.kube.access import Access
from fogctl.kube.app_objects import StageRef
from fogctl.runtime.control_http import PATH, TOKEN_HEADER


def ask(
    access: Access, ref: StageRef, token: str, request: dict[str, Any], timeout_s: float = 5.0
) -> dict[str, Any]:
    """Send a request and return the answer; FogError if nobody answers.

    Without a port in its path the proxy asks the pod's first one.
    """
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    path = f"/api/v1/namespaces/{ref.namespace}/pods/{ref.driver_pod}/proxy{PATH}"
    try:
        answer = access.raw("POST", path, request, timeout_s=timeout_s, headers={TOKEN_HEADER: token})
        found: dict[str, Any] = json.loads(answer.read() or b"{}")
    except ApiException as error:
        raise _silent(ref, _words(error)) from error
    except (HTTPError, OSError, ValueError) as error:
        raise _silent(ref, str(getattr(error, "reason", None) or error)) from error
    return found


def _silent(ref: StageRef, why: str) -> NoAnswerError:
    return NoAnswerError(
        f"the driver of {ref.app}.{ref.stage} does not answer: {why}",
        hint=f"fogctl app logs {ref.app} {ref.stage}.driver",
        exit_code=FAILED,
    )


def _words(error: Any) -> str:
    """What the driver, or the API server in its place, said."""
    try:
        said = json.loads(error.body)
    except (TypeError, ValueError):
        return f"{error.status} {error.reason}"
    if error.status == 404:
        return "it has no pod yet"
    return str(said.get("error") or said.get("message") or error.reason)
