"""Runs side by side: the same scores of the same policies, and how far they are apart. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fogctl.report.columns import COLUMNS, RESPONSE_COLUMNS, change

KEYS = tuple(column.key for column in (*COLUMNS, *RESPONSE_COLUMNS))


def compare(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each policy and run: its scores, and their change against the first run with that policy."""
    base: dict[str, Mapping[str, Any]] = {}
    rows = []
    for name, scores in runs:
        for policy in scores["policies"]:
            label = str(policy["policy"])
            first = base.setdefault(label, policy)
            own = {key: policy.get(key) for key in KEYS}
            against = {
                key: change(float(policy[key]), float(first[key]))
                for key in KEYS
                if first is not policy and _number(policy.get(key)) and _number(first.get(key))
            }
            kind = scores.get("kind", "")
            rows.append({"policy": label, "run": name, "kind": kind, "scores": own, "change": against})
    order = {label: place for place, label in enumerate(base)}
    return sorted(rows, key=lambda row: order[row["policy"]])


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
