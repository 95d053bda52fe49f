"""The schema of a benchmark's two files: what ships is valid by it, and editors find it."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from fogctl.bench.load import find, shipped
from fogctl.config import schema, source
from fogctl.config.schema import Schema

FILES = [find(name).parent / file for name in shipped() for file in ("benchmark.yaml", "execution.yaml")]
VALIDATOR = jsonschema.Draft202012Validator(schema.json_schema(Schema.bench))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_shipped_benchmark_is_valid_by_the_schema_and_tells_editors_where_it_is(file: Path) -> None:
    assert [fault.message for fault in VALIDATOR.iter_errors(source.read(file).data)] == []
    marker, _, where = file.read_text().splitlines()[0].partition("$schema=")
    assert marker == "# yaml-language-server: "
    assert (file.parent / where).resolve().name == "bench.schema.json"
    assert (file.parent / where).is_file()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("benchmark.yaml", "kind: processed", "kind: procesed"),
        ("benchmark.yaml", "name: simulated", "name: Simulated"),
        ("benchmark.yaml", "fixed: 500ms", "fixed: 500"),
        ("execution.yaml", "strategy: binary", "strategy: bisect"),
        ("execution.yaml", "\nloads:", "\nload:"),
        ("execution.yaml", "warm_up: 60s", "warm_up: 60"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(file: str, old: str, new: str) -> None:
    text = (find("simulated").parent / file).read_text()
    assert old in text
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(source.parse(text.replace(old, new, 1), "x").data)
