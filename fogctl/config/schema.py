"""JSON Schema of the files a user writes, so that editors complete and check them."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from fogctl.bench.bench_file import BenchFile
from fogctl.config.boards import BoardFile
from fogctl.config.testbed_file import TestbedFile
from fogctl.experiment.experiment_file import ExperimentFile
from fogctl.runtime.app_file import AppFile


class Schema(StrEnum):
    """The files that have a schema."""

    testbed = "testbed"
    board = "board"
    app = "app"
    experiment = "experiment"
    bench = "bench"


_MODELS: dict[Schema, type[BaseModel]] = {
    Schema.testbed: TestbedFile,
    Schema.board: BoardFile,
    Schema.app: AppFile,
    Schema.experiment: ExperimentFile,
    Schema.bench: BenchFile,
}
_TITLES = {
    Schema.testbed: "fogctl testbed.yaml",
    Schema.board: "fogctl board profile",
    Schema.app: "fogctl app.yaml",
    Schema.experiment: "fogctl experiment.yaml",
    Schema.bench: "fogctl benchmark.yaml or execution.yaml",
}


def json_schema(which: Schema) -> dict[str, Any]:
    """The schema as plain data."""
    made: dict[str, Any] = _as_written(_MODELS[which].model_json_schema(mode="validation"))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLES[which], **made}


def text(which: Schema) -> str:
    """The schema as the text of its file in docs/schema/."""
    return json.dumps(json_schema(which), indent=2, ensure_ascii=False) + "\n"


def _as_written(node: Any) -> Any:
    """The schema without pydantic's titles and parsed defaults (a file says `2ms`, not 2.0)."""
    if isinstance(node, list):
        return [_as_written(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):  # here the keys are names
            kept[key] = {name: _as_written(inner) for name, inner in value.items()}
        elif key != "title" and (key != "default" or isinstance(value, str)):
            kept[key] = _as_written(value)
    return kept
