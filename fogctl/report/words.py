"""A run in a few sentences: which policy served the load with the least, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fogctl.report.columns import change


def conclusion(scores: Mapping[str, Any]) -> list[str]:
    """Up to three sentences."""
    policies: Sequence[Mapping[str, Any]] = scores["policies"]
    if not policies:
        return ["No policy was run to its end."]
    said = [_served(policies)]
    base = policies[0]
    done = [p for p in policies if p.get("finished_s") is not None]
    others = [p for p in done if p is not base]
    if others and base in done:
        said.append(_against(min(others, key=_effort), base))
    elif len(done) < len(policies):
        late = ", ".join(str(p["policy"]) for p in policies if p not in done)
        said.append(f"Not finished within the time to drain: {late}; what they cost does not count.")
    responses = [p for p in policies if p.get("goal_met") is not None]
    if responses:
        met = [p["policy"] for p in responses if p["goal_met"]]
        missed = [p["policy"] for p in responses if not p["goal_met"]]
        said.append(f"Targets met by {', '.join(met) or 'none'}; missed by {', '.join(missed) or 'none'}.")
    elif len(done) > 1 and all(p.get("accuracy_u") is not None for p in done):
        nearest = min(done, key=lambda p: float(p["accuracy_u"]) + float(p["accuracy_o"]))
        said.append(
            f"{nearest['policy']} followed the ideal most closely: {float(nearest['accuracy_o']):.2f} "
            f"replicas to spare and {float(nearest['accuracy_u']):.2f} missing on average."
        )
    elif len(done) > 1 and all(p.get("mean_lag") is not None for p in done):
        shortest = min(done, key=lambda p: float(p["mean_lag"]))
        lag = float(shortest["mean_lag"])
        said.append(
            f"{shortest['policy']} let the fewest records wait, {lag:,.0f} on average; too few node sets "
            "were seen to say how many replicas would have done."
        )
    return said


def _effort(policy: Mapping[str, Any]) -> float:
    """Cost, with what was not served in time counted heavily: fewest nodes alone is no achievement."""
    cost = policy.get("weighted_node_minutes") or policy.get("node_minutes") or 0.0
    return float(cost) * (1.0 + 5.0 * float(policy.get("excess_time") or 0.0))


def _served(policies: Sequence[Mapping[str, Any]]) -> str:
    lost = sum(int(p.get("lost") or 0) for p in policies)
    known = any(p.get("lost") is not None for p in policies)
    names = f"{len(policies)} {'policy' if len(policies) == 1 else 'policies'}"
    if not known:
        return f"{names} served the same load."
    fate = "not one record was lost" if lost == 0 else f"{lost} records were lost"
    return f"{names} served the same load; {fate}."


def _against(best: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    parts = [f"{change(float(best['node_minutes']), float(base['node_minutes']))} node-minutes"]
    weighted, whole = best.get("weighted_node_minutes"), base.get("weighted_node_minutes")
    if weighted and whole and abs(weighted - best["node_minutes"]) > 0.01 * best["node_minutes"]:
        parts[0] += f" ({change(float(weighted), float(whole))} with CPU shares counted)"
    if base["reconfigurations"]:
        parts.append(
            f"{change(float(best['reconfigurations']), float(base['reconfigurations']))} reconfigurations"
        )
    sentence = f"{best['policy']} against {base['policy']}: {', '.join(parts)}"
    if best.get("excess_time") is not None and base.get("excess_time") is not None:
        sentence += f", excess time {float(best['excess_time']):.3f} against {float(base['excess_time']):.3f}"
    return sentence + "."
