"""Data from a file against its pydantic model, with every complaint turned into a sentence for people."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fogctl.config.problems import KeyPath, Problem, choice_hint, refuse
from fogctl.config.source import Document
from fogctl.config.units import quoted

Model = TypeVar("Model", bound=BaseModel)

_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true/false",
}


def validate(document: Document, model: type[Model]) -> Model:
    """The document as `model`; FogError with one sentence a problem if it does not fit."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    refuse(document.file, (_problem(document, model, detail) for detail in details))
    raise AssertionError("a validation error without a problem")


def _problem(document: Document, model: type[BaseModel], detail: ErrorDetails) -> Problem:
    key: KeyPath = detail["loc"]
    line = document.line(key)
    given = detail["input"]
    kind = detail["type"]
    if kind == "extra_forbidden":
        known = sorted(_keys(model, key[:-1]))
        hint = choice_hint(str(key[-1]), known, "keys here: " + ", ".join(known))
        return Problem(f"unknown key {quoted(str(key[-1]))}", line, key, hint)
    if kind == "missing":
        example = _example(model, key)
        return Problem("is missing", line, key, f"add {example}" if example else None)
    if kind in ("value_error", "assertion_error"):
        return Problem(str(detail.get("ctx", {}).get("error", detail["msg"])), line, key)
    if kind in ("enum", "literal_error"):
        known = _choices(model, key)
        return Problem(f"{_shown(given)} is not possible here", line, key, choice_hint(str(given), known))
    if kind.startswith(("model_", "dict_", "mapping_")):
        return Problem(f"must be a mapping (key: value), not {_shown(given)}", line, key)
    if kind.startswith(("list_", "tuple_")):
        return Problem(f"must be a list, not {_shown(given)}", line, key, "write [a, b] or one - item a line")
    if kind == "too_short":
        return Problem("has too few items", line, key)
    if kind == "too_long":
        return Problem("has too many items", line, key)
    if kind.startswith("bool_"):
        return Problem(f"must be true or false, not {_shown(given)}", line, key)
    if kind.startswith("string_"):
        return Problem(f"must be text, not {_shown(given)}", line, key)
    return Problem(f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, not {_shown(given)}", line, key)


def _shown(given: object) -> str:
    if given is None:
        return "nothing"
    if isinstance(given, str):
        return quoted(given)
    if isinstance(given, dict | list | bool):
        return _KINDS[type(given)]
    return quoted(str(given))


def _annotation(model: type[BaseModel], key: KeyPath) -> Any:
    """The type of the value at a key path, seen through lists, tuples and optional values."""
    here: Any = model
    for part in key:
        if isinstance(part, int):
            continue
        inner = _model(here)
        field = inner.model_fields.get(part) if inner is not None else None
        if field is None:
            return None
        here = field.annotation
    return here


def _model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = _model(inner)
        if found is not None:
            return found
    return None


def _keys(model: type[BaseModel], key: KeyPath) -> list[str]:
    found = _model(_annotation(model, key))
    return list(found.model_fields) if found is not None else []


def _choices(model: type[BaseModel], key: KeyPath) -> list[str]:
    pending = [_annotation(model, key)]
    found: list[str] = []
    while pending:
        here = pending.pop(0)
        if isinstance(here, type) and issubclass(here, Enum):
            found += [str(member.value) for member in here]
        elif isinstance(here, str):
            found.append(here)
        else:
            pending += get_args(here)
    return found


def _example(model: type[BaseModel], key: KeyPath) -> str | None:
    inner = _model(_annotation(model, key[:-1]))
    field = inner.model_fields.get(str(key[-1])) if inner is not None else None
    return f"{key[-1]}: {field.examples[0]}" if field is not None and field.examples else None
