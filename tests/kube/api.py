"""The API server without kubectl: a program takes a third of a second to start, and tests ask often."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.kube.certificates import Pair

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
MANAGER = {"fieldManager": "fog-test", "force": "true"}
GONE = (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class Resource:
    """Where the API server has the objects of a kind."""

    root: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Of all, of those in a namespace, or of one."""
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{within}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"


@dataclass(slots=True)
class Api:
    """One API server, as its administrator."""

    address: str
    port: int
    authority: Path
    pair: Pair
    inside: Callable[[], AbstractContextManager[object]]
    """In the body, sockets that this process opens are where the API server is."""
    _resources: dict[str, Resource] = field(default_factory=dict, repr=False)

    def call(self, *calls: Call) -> list[tuple[int, bytes]]:
        """The answers, one after the other; AssertionError if there are none."""
        trusted = ssl.create_default_context(cafile=str(self.authority))
        trusted.load_cert_chain(self.pair.certificate, self.pair.key)
        # The address the certificate speaks of may be another namespace's: connect where it listens.
        connection = HTTPSConnection(self.address, self.port, context=trusted, timeout=60)
        found = []
        try:
            with self.inside():
                connection.connect()
            for each in calls:
                body = None if each.body is None else json.dumps(each.body)
                connection.request(each.method, each.path, body, {"Content-Type": each.content_type})
                response = connection.getresponse()
                found.append((response.status, response.read()))
        except (OSError, HTTPException) as error:
            raise AssertionError(f"{calls[0].method} {calls[0].path} …: {error}") from error
        finally:
            connection.close()
        return found

    def get(self, *paths: str) -> list[dict[str, Any]]:
        """What is there, as values."""
        return self._done([Call("GET", path) for path in paths], (HTTPStatus.OK,))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Make objects, with the status that they bring along."""
        made = [Call("POST", self._resource(each).path(_namespace(each)), each) for each in objects]
        self._done(made, (HTTPStatus.CREATED,))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Have these objects, made or changed."""
        calls = []
        for each in objects:
            path = self._resource(each).path(_namespace(each), each["metadata"]["name"])
            calls.append(Call("PATCH", f"{path}?{urlencode(MANAGER)}", each, APPLY))
        self._done(calls, (HTTPStatus.OK, HTTPStatus.CREATED))

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Change what is there: a merge patch."""
        self._done([Call("PATCH", path, change, MERGE)], (HTTPStatus.OK,))

    def remove(self, *paths: str) -> None:
        """Have what is there removed; what is not there already is fine."""
        self._done([Call("DELETE", path) for path in paths], GONE)

    def read(self, arguments: Sequence[str]) -> dict[str, Any] | None:
        """The answer to `kubectl get ARGUMENTS`; None if that is not a simple question."""
        words = list(arguments)
        options: dict[str, str] = {}
        while len(words) > 1 and words[-2] in ("-n", "-l"):
            value, option = words.pop(), words.pop()
            options[option] = value
        everywhere = words[-1:] == ["-A"] and bool(words.pop())
        if not 1 <= len(words) <= 2 or words[-1].startswith("-"):
            return None
        space = None if everywhere else options.get("-n", "default")
        chosen = f"?{urlencode({'labelSelector': options['-l']})}" if "-l" in options else ""
        name = words[1] if len(words) == 2 else None
        found = [self.named(word) for word in words[0].split(",")]
        answers = self.get(*(each.path(space, name) + chosen for each in found))
        if name is not None:
            return answers[0]
        items = []
        for resource, answer in zip(found, answers, strict=True):
            about = {"apiVersion": answer["apiVersion"], "kind": resource.kind}
            items += [{**about, **item} for item in answer["items"]]
        return {"kind": "List", "items": items}

    def named(self, word: str) -> Resource:
        """By its plural, singular, short name or kind, as kubectl knows it."""
        if not self._resources:
            (groups,) = self.get("/apis")
            roots = [f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups["groups"]]
            roots.append("/api/v1")  # last: what several groups have is meant in the first of all
            for root, listed in zip(roots, self.get(*roots), strict=True):
                for each in listed["resources"]:
                    made = Resource(root, each["name"], each["kind"], each["namespaced"])
                    if "/" not in made.plural:
                        words = (each["name"], each["singularName"], *each.get("shortNames", ()))
                        self._resources |= dict.fromkeys((*words, made.kind), made)
        assert word in self._resources, f"the cluster has no {word}"
        return self._resources[word]

    def _resource(self, manifest: Mapping[str, Any]) -> Resource:
        return self.named(manifest["kind"])

    def _done(self, calls: Sequence[Call], good: Sequence[int]) -> list[dict[str, Any]]:
        found = self.call(*calls) if calls else []
        for call, (status, said) in zip(calls, found, strict=True):
            assert status in good, f"{call.method} {call.path}: {status} {said[:300]!r}"
        return [json.loads(said) for _, said in found]


def _namespace(manifest: Mapping[str, Any]) -> str:
    return str(manifest["metadata"].get("namespace", "default"))
