"""Which nodes fell silent and which came back, told once each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fogctl.agent.observation import Observation


@dataclass(frozen=True, slots=True)
class Presence:
    """The nodes that did not answer at the last look, and since when."""

    silent: Mapping[str, float] = field(default_factory=dict)

    def after(self, seen: Observation, edge: Iterable[str]) -> tuple[Presence, tuple[dict[str, Any], ...]]:
        """The same after one more look, and the events it gives rise to.

        When nobody at all answers, it is whoever should ask them that is missing: no node is lost by that.
        """
        if not seen.nodes:
            return self, ()
        gone = {node: self.silent.get(node, seen.at_s) for node in edge if seen.node(node) is None}
        head = {"at_s": seen.at_s, "app": seen.app}
        lost = [
            {
                **head,
                "what": "node lost",
                "node": node,
                "stages": [each.stage for each in seen.deployment.stages if node in each.nodes],
            }
            for node in gone
            if node not in self.silent
        ]
        back = [
            {**head, "what": "node back", "node": node, "after_s": round(seen.at_s - since, 1)}
            for node, since in self.silent.items()
            if node not in gone
        ]
        return Presence(gone), (*lost, *back)
