"""The guide names every metric and every field, and nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fogctl.metrics.exposition import NODE, STAGE, Gauge

GUIDE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("gauge", [*STAGE, *NODE], ids=lambda gauge: gauge.name)
def test_every_metric_is_in_the_guide_with_its_label_and_field(gauge: Gauge) -> None:
    labelled = f"{gauge.name}{{{gauge.label}}}" if gauge.label else gauge.name
    assert f"| `{labelled}` | `{gauge.field}` |" in GUIDE


def test_the_guide_names_no_metric_that_does_not_exist() -> None:
    named = set(re.findall(r"fogctl_(?:stage|node)_[a-z_]+", GUIDE))
    assert named == {gauge.name for gauge in (*STAGE, *NODE)}
