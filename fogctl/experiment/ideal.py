"""What the best n nodes sustain, which the ideal curve is drawn from, and how far nodes are away. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SHARES: Final = tuple(step / 20 for step in range(2, 21))
"""The CPU shares that an ideal scaler could choose from."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """What the best 1, 2, … nodes sustain at each share, by stage, and where that is known from."""

    by_stage: Mapping[str, Mapping[float, list[float]]]
    source: str

    def facts(self) -> dict[str, Any]:
        """As the manifest has it: at full share under `mst`, at every share under `mst_shares`."""
        return {
            "mst": {stage: rates[1.0] for stage, rates in self.by_stage.items()},
            "mst_shares": {stage: list(map(list, rates.items())) for stage, rates in self.by_stage.items()},
            "mst_from": self.source,
        }


def distances_by_node(manifest: Mapping[str, Any]) -> dict[str, float]:
    """By edge node the longer of its round trips to driver and broker, as asked."""
    network = manifest["network"]
    roles = {node["name"]: node["role"] for node in manifest["testbed"]["nodes"]}
    names = network["nodes"]
    origins = [place for place, name in enumerate(names) if roles.get(name) != "edge"]
    return {
        name: max((network["asked_ms"][origin][place] for origin in origins), default=0.0)
        for place, name in enumerate(names)
        if roles.get(name) == "edge"
    }
