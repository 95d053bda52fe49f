"""The way into a cluster: its failures are sentences, its token is renewed in time, its file is private."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import NewConnectionError, ProtocolError

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.kube import credentials, operator_access
from fogctl.kube.access import Access
from fogctl.kube.credentials import Credentials
from fogctl.kube.objects import patiently


class Named(Access):
    """An access whose cluster needs not be there."""

    url = "https://cluster:6443"


def refusal(status: int, message: str) -> ApiException:
    return ApiException(status, "", body=json.dumps({"message": message}))


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (refusal(401, "Unauthorized"), "does not accept the credentials in", REFUSED),
        (refusal(403, "pods is forbidden"), "the cluster does not permit it: pods is forbidden", REFUSED),
        (refusal(422, "spec is wrong"), "making x: the cluster answers: spec is wrong", FAILED),
        (
            ApiException(
                0, "SSLError\n[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1006)"
            ),
            "the certificate of https://cluster:6443 is not one that",
            REFUSED,
        ),
        (ApiException(500, "Internal"), "the cluster answers: Internal", FAILED),
        (NewConnectionError(None, "[Errno 111] Connection refused"), "nothing listens there", FAILED),  # type: ignore[arg-type]
        (
            ProtocolError("Connection aborted.", ConnectionResetError(104, "Connection reset by peer")),
            "reached",
            FAILED,
        ),
        (TimeoutError("timed out"), "it does not answer in time", FAILED),
    ],
)
def test_what_goes_wrong_is_one_sentence(tmp_path: Path, error: Exception, said: str, code: int) -> None:
    with pytest.raises(FogError) as caught, Named(tmp_path / "config").sentences("making x"):
        raise error
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code


def test_a_missing_kubeconfig_says_where_it_should_be(tmp_path: Path) -> None:
    with pytest.raises(FogError, match=r"nowhere: there is no kubeconfig"):
        Access(tmp_path / "nowhere").client  # noqa: B018


@pytest.mark.parametrize("text", ["", "[]", "{}", "clusters: 3", "a: {", "apiVersion: v1\nkind: Config\n"])
def test_a_file_that_is_no_kubeconfig_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(FogError):
        Access(tmp_path / "config").client  # noqa: B018


def test_an_api_server_that_is_away_for_a_moment_is_asked_again() -> None:
    answers: list[Any] = [refusal(503, "starting"), ConnectionResetError(), "done"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert patiently(call, 30.0) == "done"


@pytest.mark.parametrize("error", [refusal(403, "no"), refusal(422, "no"), ValueError("no")])
def test_what_does_not_pass_is_not_asked_again(error: Exception) -> None:
    asked = []

    def call() -> None:
        asked.append(1)
        raise error

    with pytest.raises(type(error)):
        patiently(call, 30.0)
    assert len(asked) == 1


def token(uid: str, begins: float, ends: float) -> str:
    body = {"iat": begins, "exp": ends, "kubernetes.io": {"serviceaccount": {"uid": uid}}}
    return f"h.{base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip('=')}.s"


def written(folder: Path, text: str, mode: int = 0o600) -> Any:
    settings = SimpleNamespace(
        host="https://cluster:6443", verify_ssl=True, ssl_ca_cert=None, tls_server_name=None
    )
    admin = Named(folder / "admin")
    admin._client = SimpleNamespace(configuration=settings)
    file = Access.restricted(folder).kubeconfig
    file.write_text(operator_access.kubeconfig_text(admin, "lab", text))
    file.chmod(mode)
    return admin


@pytest.mark.parametrize(
    ("uid", "now_s", "mode", "usable"),
    [
        ("u1", 10.0, 0o600, True),
        ("u1", 60.0, 0o600, False),
        ("u2", 10.0, 0o600, False),
        ("u1", 10.0, 0o644, False),
    ],
)
def test_a_token_is_used_for_half_its_life_by_the_account_it_was_made_for(
    tmp_path: Path, uid: str, now_s: float, mode: int, usable: bool
) -> None:
    admin = written(tmp_path, token("u1", 0.0, 100.0), mode)
    assert operator_access.usable(tmp_path, admin, uid, now_s) is usable


@pytest.mark.parametrize("text", ["", "a.b", "a.!!.c", "wrong"])
def test_what_is_no_token_is_not_used(tmp_path: Path, text: str) -> None:
    assert not operator_access.usable(tmp_path, written(tmp_path, text), "u1", 1.0)
    assert not operator_access.usable(tmp_path / "nowhere", written(tmp_path, text), "u1", 1.0)


def test_the_kubeconfig_holds_the_account_and_its_namespace(tmp_path: Path) -> None:
    written(tmp_path, "t")
    found = yaml.safe_load(Access.restricted(tmp_path).kubeconfig.read_text())
    assert found["users"] == [{"name": "fog-operator", "user": {"token": "t"}}]
    assert found["contexts"][0]["context"]["namespace"] == "fog-lab"


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    first = Credentials.of(tmp_path)
    assert Credentials.of(tmp_path) == first
    assert len({first.kafka_password, first.control_token}) == 2
    for name in (credentials.KAFKA_PASSWORD_FILE, credentials.CONTROL_TOKEN_FILE):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert credentials.control_token(tmp_path) == first.control_token
