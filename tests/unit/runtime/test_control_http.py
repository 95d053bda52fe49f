"""A stage runner's answers over HTTP: with the token, and to nobody else."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from fogctl.runtime.control_http import PATH, TOKEN_HEADER, serve

TOKEN = "a-long-secret"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    return {"asked": request["ask"]}


@pytest.fixture
def url() -> Iterator[str]:
    server = serve("127.0.0.1", 0, TOKEN, answer)
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def post(where: str, body: bytes, token: str = TOKEN) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(where, data=body, headers={TOKEN_HEADER: token}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as found:
            return found.status, json.loads(found.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_who_has_the_token_is_answered(url: str) -> None:
    assert post(url + PATH, b'{"ask": "status"}') == (200, {"asked": "status"})


@pytest.mark.parametrize("token", ["", "a-long-secreT", "a-long-secret "])
def test_nobody_else_is_told_anything(url: str, token: str) -> None:
    status, said = post(url + PATH, b'{"ask": "status"}', token)
    assert status == 401
    assert said == {"error": "the token is wrong"}


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[1]", b"{}", b'{"ask": ' + b" " * 70_000 + b"1}"])
def test_what_is_no_request_is_refused_and_the_next_one_is_answered(url: str, body: bytes) -> None:
    assert post(url + PATH, body)[0] == 400
    assert post(url + PATH, b'{"ask": "status"}')[0] == 200


def test_other_paths_are_refused(url: str) -> None:
    assert post(f"{url}/other", b'{"ask": "status"}')[0] == 400
