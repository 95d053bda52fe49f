"""CPU shares by thresholds: the reactive policy that the MEAD paper compares with (section VII)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fogmodels.queueing import LEVELS

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Share
from fogctl.agent.stagewise import StageView, decide_each

_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class ThresholdVertical:
    """One share level up above 70 % utilisation, one down below 50 %; knows no response time."""

    name: ClassVar[str] = "threshold-vertical"
    wants_arrivals: ClassVar[bool] = False
    up_above: float = 0.70
    down_below: float = 0.50
    levels: tuple[float, ...] = LEVELS

    def __post_init__(self) -> None:
        if not 0.0 <= self.down_below < self.up_above <= 1.0:
            raise ValueError("down_below must be less than up_above, both from 0 to 1")
        if not self.levels or not all(0 < level <= 1 for level in self.levels):
            raise ValueError("levels must be shares above 0 and up to 1")
        object.__setattr__(self, "levels", tuple(sorted(set(self.levels))))

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """For each stage alone."""
        return decide_each(seen, known, lambda stage: self._one(seen, stage))

    def _one(self, seen: Observation, stage: StageView) -> Plan:
        used = utilisation(seen, stage)
        numbers = {"cpu_utilisation": used, "share": stage.share}
        higher = [level for level in self.levels if level > stage.share + _SAME]
        lower = [level for level in self.levels if level < stage.share - _SAME]
        if used > self.up_above and higher:
            level, why = higher[0], f"CPU {used:.0%} > {self.up_above:.0%}"
        elif used < self.down_below and lower:
            level, why = lower[-1], f"CPU {used:.0%} < {self.down_below:.0%}"
        else:
            return Plan.keep(f"CPU {used:.0%} at {stage.share:.0%}", numbers)
        reason = f"{why}: {stage.share:.0%} to {level:.0%} of the CPU"
        return Plan((Share(stage.name, None, level),), reason, numbers, {"share": level})


def utilisation(seen: Observation, stage: StageView) -> float:
    """CPU that the stage's replicas use over what their shares allow; the executors' time where unknown."""
    part = f"{seen.app}-{stage.name}"
    used = allowed = 0.0
    for replica in stage.placement.replicas:
        there = seen.node(replica.node)
        if there is not None and there.cpu_quota_cores and part in there.cpu_used_by_part:
            used += there.cpu_used_by_part[part]
            allowed += there.cpu_quota_cores * replica.share
    return used / allowed if allowed > 0 else stage.metrics.busyness
