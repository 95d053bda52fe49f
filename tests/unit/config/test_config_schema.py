"""The exported JSON Schema and the tables in the docs are what the code says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fogctl import data
from fogctl.config import schema, shipped, source
from fogctl.config.schema import Schema

ROOT = Path(__file__).resolve().parents[3]
PROFILES = sorted(data.path("hardware").glob("*.yaml"))
EXAMPLES = [shipped.folder(example) / "testbed.yaml" for example in shipped.Example]


def validator(which: Schema) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema.json_schema(which))


@pytest.mark.parametrize("which", Schema)
def test_the_schema_in_the_docs_is_fresh(which: Schema) -> None:
    file = ROOT / "docs" / "schema" / f"{which.value}.schema.json"
    assert file.read_text() == schema.text(which), (
        f"run: fogctl schema {which.value} --to {file.relative_to(ROOT)}"
    )


@pytest.mark.parametrize("which", Schema)
def test_the_schema_is_a_schema(which: Schema) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema.text(which)))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_an_example_is_valid_by_the_schema(file: Path) -> None:
    assert [fault.message for fault in validator(Schema.testbed).iter_errors(source.read(file).data)] == []


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_a_board_profile_is_valid_by_the_schema(file: Path) -> None:
    assert [fault.message for fault in validator(Schema.board).iter_errors(source.read(file).data)] == []


@pytest.mark.parametrize("file", [*EXAMPLES, *PROFILES], ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_shipped_file_tells_editors_where_its_schema_is(file: Path) -> None:
    marker, _, where = file.read_text().splitlines()[0].partition("$schema=")
    assert marker == "# yaml-language-server: "
    assert (file.parent / where).is_file()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rtt: 12ms", "rtt: 12"),
        ("jitter:", "jiter:"),
        ("role: broker", "role: brokr"),
        ("name: city", "name: City"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(old: str, new: str) -> None:
    text = (shipped.folder(shipped.Example.city) / "testbed.yaml").read_text()
    assert old in text
    with pytest.raises(jsonschema.ValidationError):
        validator(Schema.testbed).validate(source.parse(text.replace(old, new, 1), "x").data)
