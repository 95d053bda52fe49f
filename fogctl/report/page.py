"""The page of a run: what happened, in words, tables and figures; everything inside, nothing loaded."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.experiment import score as scoring
from fogctl.experiment import series as parts
from fogctl.experiment.folder import RunFolder, write_text
from fogctl.report import figures, paper, policy_figure, tables, words
from fogctl.report.drawing import Drawing

_HERE = Path(__file__).resolve().parent
_KINDS = {
    "sim": ("simulated", "every figure on this page comes from the simulator; nothing was run"),
    "virtual": ("emulated", "real Spark and Kafka on emulated nodes of one host"),
    "k3s": ("live", "real boards"),
}


@dataclass(frozen=True, slots=True)
class Story:
    """A run as the report tells it: for each policy the repetition that stands for it."""

    manifest: Mapping[str, Any]
    scores: Mapping[str, Any]
    drawings: tuple[Drawing, ...]
    """One a policy, in the order of the scores."""
    decisions: tuple[Sequence[Mapping[str, Any]], ...]
    overview: Drawing | None
    latencies: Drawing | None
    responses: Drawing | None
    targets: Mapping[str, Mapping[str, Any]]

    @property
    def figures(self) -> list[Drawing]:
        """All figures, in the order of the page."""
        single = [self.overview, *self.drawings, self.latencies, self.responses]
        return [drawing for drawing in single if drawing is not None]


def tell(folder: RunFolder) -> Story:
    """Score a run again from its files and draw its figures."""
    manifest, metrics, events = folder.whole().manifest(), folder.metrics(), folder.events()
    scores = scoring.score(manifest, metrics, events)
    runs, drawings, decisions, targets, curves = {}, [], [], {}, []
    longest = 0.0
    for number, policy in enumerate(scores["policies"]):
        entry = _typical(manifest, scores, policy)
        label = str(policy["policy"])
        stages = parts.series(manifest, entry, metrics)
        if not stages:
            continue
        own = parts.part_events(events, entry)
        changes = parts.changes(own)
        runs[label] = stages
        longest = max(longest, float(entry["trace_s"]))
        drawings.append(policy_figure.draw(f"policy-{number}", label, stages, own, float(entry["trace_s"])))
        decisions.append(changes)
        targets[label] = entry.get("goal") or {}
        curves += [
            {**event, "label": label, "targets_s": [v for v in targets[label].values() if v]}
            for event in own
            if event.get("what") == "responses" and event.get("path") == _slowest(own)
        ]
    return Story(
        manifest,
        scores,
        tuple(drawings),
        tuple(decisions),
        figures.overview(runs, longest) if len(runs) > 1 else None,
        figures.heat_map(manifest.get("network") or {}),
        figures.response_times(curves),
        targets,
    )


def write(folder: RunFolder) -> Story:
    """Make scores.json and report.html anew from the other files."""
    story = tell(folder)
    folder.save_scores(story.scores)
    write_text(folder.report_file, render(story))
    return story


def render(story: Story) -> str:
    """The page as one HTML document."""
    manifest, scores = story.manifest, story.scores
    policies = scores["policies"]
    kind, meaning = _KINDS.get(str(manifest.get("kind")), (str(manifest.get("kind")), ""))
    name = _text(manifest["run"])
    body = [
        f"<h1>{_text(manifest['experiment'])} "
        f"<span class='badge {_text(manifest.get('kind'))}'>{_text(kind)}</span></h1>",
        f"<p class=sub>run {name}, {_text(manifest['began'])}; {_text(meaning)}</p>",
        _conclusion(story),
        "".join(f"<p class=warning role=note>{_text(line)}</p>" for line in scores["warnings"]),
        _contents(story),
    ]
    if policies:
        body.append("<h2 id=scores>Scores</h2>" + tables.elasticity(policies))
        body.append(_explained())
        if len(policies) > 1:
            body.append(tables.relative(policies))
        if len(scores["parts"]) > len(policies):
            body.append(_details("every repetition by itself", tables.parts(scores["parts"])))
    if story.overview is not None:
        body.append("<h2 id=overview>Replicas against the ideal</h2>" + _figure(story.overview, ""))
    for policy, drawing, decisions in zip(policies, story.drawings, story.decisions, strict=False):
        body.append(f"<h2 id={drawing.name}>{_text(policy['policy'])}</h2>" + _figure(drawing, _CAPTION))
        body.append(_details(f"{len(decisions)} changes with their reasons", tables.decisions(decisions)))
        body.append(_details("the figure as a table", tables.series(drawing.probe)))
    if story.responses is not None:
        body.append("<h2 id=responses>Response times</h2>" + _figure(story.responses, ""))
        body.append(tables.responses(policies, story.targets))
        if {str(part.get("name")) for part in manifest["parts"]} & set(paper.MEAD_POLICIES):
            body.append(_details("what the MEAD paper printed", tables.published_responses()))
    if story.latencies is not None:
        network = manifest["network"]
        body.append("<h2 id=latencies>Latencies</h2>" + f"<p>{_text(network.get('sentence', ''))}</p>")
        body.append(_figure(story.latencies, "") + _details("as a table", tables.matrix(network)))
    body.append(_provenance(manifest))
    css, script = ((_HERE / file).read_text(encoding="utf-8") for file in ("page.css", "page.js"))
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{name}: fogctl experiment</title><style>{css}</style></head>"
        f"<body><main>{''.join(body)}</main><div id=tip role=status></div>"
        f"<script>{script}</script></body></html>\n"
    )


_CAPTION = (
    "▲ replicas added, ▼ removed, ◆ shares changed, ✖ failed: point at a mark for the reason, anywhere else "
    "for the values. Hatched red: input piled up because of a change. Dotted line: the trace ends, what is "
    "left drains."
)


def _conclusion(story: Story) -> str:
    lines = words.conclusion(story.scores)
    return "<div class=conclusion>" + "".join(f"<p>{_text(line)}</p>" for line in lines) + "</div>"


def _contents(story: Story) -> str:
    links = [("scores", "scores")]
    if story.overview is not None:
        links.append(("overview", "all policies"))
    links += [
        (drawing.name, str(policy["policy"]))
        for policy, drawing in zip(story.scores["policies"], story.drawings, strict=False)
    ]
    if story.responses is not None:
        links.append(("responses", "response times"))
    if story.latencies is not None:
        links.append(("latencies", "latencies"))
    links.append(("provenance", "how it was made"))
    return "<nav>" + "".join(f"<a href='#{where}'>{_text(text)}</a>" for where, text in links) + "</nav>"


def _explained() -> str:
    return (
        "<p class=sub>Ideal: for each instant the least number of replicas whose best node set sustains the "
        f"input (mean over {parts.SMOOTH_S:g} s). Accuracy O and U: replicas to spare and missing, on "
        "average. Lower is better. The paper's rows are its Table III, measured on Flink with another "
        "testbed and a longer run: compare the differences between policies, not the numbers.</p>"
    )


def _figure(drawing: Drawing, caption: str) -> str:
    probe = json.dumps(drawing.probe, separators=(",", ":")).replace("</", "<\\/")
    data = f"<script type='application/json' class=probe>{probe}</script>" if drawing.probe else ""
    said = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
    return f"<figure id='figure-{drawing.name}'>{drawing.svg()}{said}{data}</figure>"


def _details(summary: str, inner: str) -> str:
    return f"<details><summary>{_text(summary)}</summary>{inner}</details>"


def _provenance(manifest: Mapping[str, Any]) -> str:
    facts = {
        "command": manifest.get("command", ""),
        "seed": manifest.get("seed", ""),
        "host": ", ".join(f"{key} {value}" for key, value in (manifest.get("host") or {}).items()),
        "versions": ", ".join(f"{key} {value}" for key, value in (manifest.get("versions") or {}).items()),
        "ideal curve from": manifest.get("mst_from", ""),
    }
    rows = "".join(
        f"<dt>{_text(key)}</dt><dd>{_text(value)}</dd>" for key, value in facts.items() if value != ""
    )
    config = _text(manifest.get("config", ""))
    return (
        f"<h2 id=provenance>How it was made</h2><dl>{rows}</dl><pre>{config}</pre>"
        "<p class=sub>Made from the run's folder alone: manifest.json, events.jsonl, metrics.parquet. "
        "fogctl experiment report makes it again.</p>"
    )


def _typical(
    manifest: Mapping[str, Any], scores: Mapping[str, Any], policy: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The repetition whose cost is nearest to the policy's median."""
    own = [part for part in scores["parts"] if part["policy"] == policy["policy"]]
    chosen = min(own, key=lambda part: abs(part["node_minutes"] - policy["node_minutes"]))
    return next(
        entry
        for entry in parts.finished(manifest)
        if entry["policy"] == chosen["policy"] and entry["repetition"] == chosen["repetition"]
    )


def _slowest(events: Sequence[Mapping[str, Any]]) -> Any:
    paths = [event for event in events if event.get("what") == "responses"]
    return max(paths, key=lambda event: float(event["mean_s"]))["path"] if paths else None


def _text(value: object) -> str:
    return html.escape(str(value))
