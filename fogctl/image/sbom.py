"""The bill of materials of an image as SPDX 2.3 in JSON: pure, the same items give the same text."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from fogctl.image.inventory import Item

FILE_NAME = "fogctl-stage.spdx.json"
_NOT_SAID = "NOASSERTION"


def document(
    name: str, version: str, architecture: str, items: Sequence[Item], made_at: int, tool: str
) -> dict[str, Any]:
    """The document: the image, and what it contains."""
    about = f"{name}-{version}-{architecture}"
    packages, identities = _packages(items)
    image = {
        "SPDXID": "SPDXRef-Image",
        "name": name,
        "versionInfo": version,
        "downloadLocation": _NOT_SAID,
        "filesAnalyzed": False,
        "licenseConcluded": _NOT_SAID,
        "licenseDeclared": _NOT_SAID,
        "copyrightText": _NOT_SAID,
        "primaryPackagePurpose": "CONTAINER",
    }
    contents = hashlib.sha256("\n".join(sorted(item.url for item in items)).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": about,
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{about}#{contents}')}",
        "creationInfo": {
            "created": datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: {tool}"],
        },
        "packages": [image, *packages],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image"),
            *(_relation("SPDXRef-Image", "CONTAINS", identity) for identity in identities),
        ],
    }


def text(document: dict[str, Any]) -> str:
    """As it is written to a file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _packages(items: Iterable[Item]) -> tuple[list[dict[str, Any]], list[str]]:
    made: dict[str, dict[str, Any]] = {}
    for item in items:
        kind = item.url.removeprefix("pkg:").partition("/")[0]
        identity = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", f"{kind}-{item.name}-{item.version}")
        if identity in made:  # the same jar for Spark and for the broker
            identity += f"-{len(made)}"
        made[identity] = _package(identity, item)
    return list(made.values()), list(made)


def _package(identity: str, item: Item) -> dict[str, Any]:
    made: dict[str, Any] = {
        "SPDXID": identity,
        "name": item.name,
        "versionInfo": item.version,
        "downloadLocation": _NOT_SAID,
        "filesAnalyzed": False,
        "licenseConcluded": _NOT_SAID,
        "licenseDeclared": item.licence or _NOT_SAID,
        "copyrightText": _NOT_SAID,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": item.url,
            }
        ],
    }
    if item.supplier is not None:
        # SPDX writes an address in round brackets.
        made["supplier"] = "Organization: " + re.sub(r"\s*<(.*)>", r" (\1)", item.supplier)
    if item.sha256 is not None:
        made["checksums"] = [{"algorithm": "SHA256", "checksumValue": item.sha256}]
    if item.file is not None:
        made["packageFileName"] = item.file
    return made


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
