"""Runs side by side: the same scores of the same policies, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fogctl.config import source
from fogctl.errors import FogError
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.score import PartScore, median
from fogctl.experiment.series import finished, series
from fogctl.report.columns import COLUMNS, RESPONSE_COLUMNS, change
from fogctl.sim.compare import Steps
from fogctl.sim.compare import compare as compare_runs

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


def together(runs: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Several sittings of one experiment as one: by policy the medians over the parts of all runs, and their
    change against the first policy's over the seeds that both have. Each run is (name, manifest, scores)."""
    kinds = {(str(manifest["experiment"]), str(manifest["kind"])) for _, manifest, _ in runs}
    if len(kinds) > 1:
        told = " and ".join(f"{experiment} on {kind}" for experiment, kind in sorted(kinds))
        raise FogError(f"runs of {told} have no common medians", hint="name runs of one experiment and kind")
    _alike(runs)
    parts: dict[str, list[tuple[int, PartScore]]] = {}
    for _, manifest, scores in runs:
        seeds = {(e["policy"], e["repetition"]): int(e["seed"]) for e in manifest["parts"]}
        for part in scores["parts"]:
            seed = seeds[part["policy"], part["repetition"]]
            parts.setdefault(str(part["policy"]), []).append((seed, PartScore(**part)))
    rows: list[dict[str, Any]] = []
    first = next(iter(parts.values()), [])
    for policy, own in parts.items():
        common = {seed for seed, _ in own} & {seed for seed, _ in first}
        ours, theirs = (
            median([p for s, p in some if s in common]) if common else {} for some in (own, first)
        )
        against = {
            key: change(float(ours[key]), float(theirs[key]))
            for key in KEYS
            if own is not first and _number(ours.get(key)) and _number(theirs.get(key))
        }
        found = median([part for _, part in own])
        seeds_of = sorted(seed for seed, _ in own)
        rows.append({"policy": policy, "seeds": seeds_of, "scores": found, "change": against})
    return rows


def _alike(runs: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> None:
    """FogError unless the runs had the same settings; which policies and seeds each has is its own affair."""
    options: dict[str, tuple[str, Any]] = {}
    for name, manifest, _ in runs:
        first, own, theirs = runs[0][0], _settings(manifest), _settings(runs[0][1])
        differ = [key for key in {**theirs, **own} if own.get(key) != theirs.get(key)]
        for entry in manifest["parts"]:
            used = entry.get("options") or {}
            before = options.setdefault(str(entry["policy"]), (name, used))
            if not differ and before[1] != used:
                first, differ = before[0], [f"the options of {entry['policy']}"]
        if differ:
            raise FogError(
                f"runs {first} and {name} differ in {' and '.join(differ)}, so they have no common medians",
                hint="leave one of them out; fogctl experiment compare without --together shows both",
            )


def _settings(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the experiment's file says but for policies and seeds, and the CPU of the nodes it was run on."""
    config = source.parse(str(manifest["config"]), str(manifest.get("source", ""))).data
    own = ("policies", "seed", "repetitions")
    cores = {node["name"]: node["cores"] for node in manifest.get("testbed", {}).get("nodes", ())}
    return {**{key: value for key, value in config.items() if key not in own}, "the nodes' CPU": cores}


def replicas(first: RunFolder, second: RunFolder) -> list[dict[str, Any]]:
    """For each part that both runs have finished on the same trace: how alike their replicas were over time.

    This is how the simulator is validated: `agreement` must be 0.9 or more, and `scores` says of each score
    how far the second run's is from the first's.
    """
    ours, theirs = (_parts(folder) for folder in (first, second))
    rows = []
    for key, (entry, score, steps) in ours.items():
        other = theirs.get(key)
        if other is None or other[0]["seed"] != entry["seed"] or set(other[2]) != set(steps) or not steps:
            continue
        end_s = min(float(entry["trace_s"]), float(other[0]["trace_s"]))
        found = compare_runs(score, other[1], steps, other[2], end_s)
        rows.append(
            {
                "policy": key[0],
                "repetition": key[1],
                "agreement": found.agreement,
                "within_one": found.within_one,
                "mean_difference": found.mean_difference,
                "valid": found.valid,
                "scores": {
                    name: {"first": d.live, "second": d.simulated, "off": d.absolute, "relative": d.relative}
                    for name, d in found.scores.items()
                },
            }
        )
    return rows


def _parts(
    folder: RunFolder,
) -> dict[tuple[str, int], tuple[Mapping[str, Any], dict[str, Any], dict[str, Steps]]]:
    """By policy and repetition: the manifest's entry, the scores, and each stage's replicas over time."""
    manifest, metrics = folder.manifest(), folder.metrics()
    scores = {(part["policy"], part["repetition"]): part for part in folder.scores()["parts"]}
    found = {}
    for entry in finished(manifest):
        key = (str(entry["policy"]), int(entry["repetition"]))
        stages = series(manifest, entry, metrics)
        steps: dict[str, Steps] = {
            name: list(zip(stage.at_s.tolist(), stage.replicas.tolist(), strict=True))
            for name, stage in stages.items()
        }
        numbers = {name: value for name, value in scores.get(key, {}).items() if _number(value)}
        found[key] = (entry, numbers, steps)
    return found


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
