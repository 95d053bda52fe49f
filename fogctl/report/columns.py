"""The scores as people read them: what each is called, how it is printed, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One score: its key in scores.json, its heading, its format, and what it means."""

    key: str
    heading: str
    style: str
    meaning: str
    better: str = "low"
    """low, high, or none where neither is better."""
    rare: bool = False
    """Shown only where it is not 0."""

    def text(self, value: Any) -> str:
        """The value as the page and the terminal print it."""
        if value is None:
            return "–"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.style == "percent":
            return f"{float(value) * 100:.1f} %"
        if self.style == "whole":
            return f"{float(value):,.0f}"
        if self.style == "seconds":
            return f"{float(value):.3g} s"
        return f"{float(value):,.{int(self.style)}f}"


COLUMNS = (
    Column("accuracy_o", "accuracy O", "3", "replicas to spare against the ideal, on average"),
    Column("accuracy_u", "accuracy U", "3", "replicas missing against the ideal, on average"),
    Column("accuracy_o_cpu", "CPU O", "3", "nodes' worth of CPU to spare against the least that would do"),
    Column("accuracy_u_cpu", "CPU U", "3", "nodes' worth of CPU missing against the least that would do"),
    Column("timeshare_o", "time over", "percent", "share of the time with more replicas than the ideal"),
    Column("timeshare_u", "time under", "percent", "share of the time with fewer replicas than the ideal"),
    Column("excess_time", "excess time", "3", "time needed beyond the trace, over its length"),
    Column("reconfigurations", "reconf.", "whole", "changes of the set of nodes, of however many at once"),
    Column("node_minutes", "node-min", "1", "replicas paid for, minute by minute, until the last record"),
    Column("weighted_node_minutes", "× share", "1", "the same where half a node costs half: × CPU share"),
    Column("core_minutes", "core-min", "2", "CPU paid for: replicas × share × quota"),
    Column("mean_lag", "mean lag", "whole", "records waiting, on average"),
    Column("largest_lag", "largest lag", "whole", "records waiting at the worst moment"),
    Column("stalled_s", "stalls", "seconds", "seconds of input that piled up because of changes"),
    Column("waiting", "left", "whole", "records still waiting when the time to drain was over", "low", True),
    Column("lost", "lost", "whole", "records sent that never came out"),
    Column(
        "duplicates", "twice", "whole", "records that came out again, each extra one counted", "none", True
    ),
)
"""The columns of the elasticity table, in the order of the Gesscale paper's Table III, then ours."""

RESPONSE_COLUMNS = (
    Column("response_mean_s", "mean response", "seconds", "from arrival to result, slowest path"),
    Column("response_p95_s", "95th percentile", "seconds", "of the same"),
    Column("cpu_share", "CPU", "percent", "mean share of a replica; 100 % is the static allocation"),
    Column("share_changes", "share changes", "whole", "changes of CPU shares", "none"),
    Column("goal_met", "target met", "flag", "whether every target given was met", "none"),
)


def change(value: float, base: float) -> str:
    """How a value differs from another, in per cent: −17 %."""
    if base == 0:
        return "±0 %" if value == 0 else "+∞"
    return f"{(value / base - 1) * 100:+.0f} %".replace("-", "−")
