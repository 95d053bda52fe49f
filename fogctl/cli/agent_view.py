"""How the agent's decisions and state look to people."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

QUIET = frozenset({"kept"})


def clock(at_s: float) -> str:
    """A moment as people read it."""
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def line(event: Mapping[str, Any]) -> str:
    """An event of the log in one line."""
    return f"{clock(float(event.get('at_s', 0)))}  {_said(event)}"


def _said(event: Mapping[str, Any]) -> str:
    match event.get("what"):
        case "decision":
            return _decision(event)
        case "applied":
            return f"did      {event['changes']} in {event['seconds']:.1f} s"
        case "failed":
            return f"failed   {event['changes']}: {event['error']}"
        case "observed":
            return _observed(event)
        case "resumed":
            rest = f": {event['error']}" if event.get("error") else ""
            return f"resumed  decision {event['decision']}, found {event['found']}{rest}"
        case "agent started":
            often = f"a look every {event['every_s']:g} s"
            return f"started  policy {event['policy']}, {often}; model: {event['model']}"
        case "agent stopped":
            return f"stopped  after {event['decisions']} decisions"
        case "policy failed":
            return f"policy {event['policy']} failed: {str(event['error']).strip().splitlines()[-1]}"
        case what:
            facts = ", ".join(f"{k}={v}" for k, v in event.items() if k not in ("at_s", "what", "app"))
            return f"{what}  {facts}"


def _decision(event: Mapping[str, Any]) -> str:
    head = {"kept": "keep", "advised": "advise", "intended": "do"}.get(event["outcome"], event["outcome"])
    parts = [event["reason"]]
    if event["actions"]:
        parts.insert(0, event["changes"])
    parts += [f"{note['guard']}: {note['why']}" for note in event["guards"]]
    return f"{head:<8} {' | '.join(parts)}"


def _observed(event: Mapping[str, Any]) -> str:
    off = [
        f"{key} {event['predicted'][key]:.4g} predicted, {event['observed'][key]:.4g} seen"
        for key in event["off"]
    ]
    said = "; ".join(off) or "nothing comparable was predicted"
    return f"effect   of decision {event['decision']}: {said}; stall {event['stall_s']:.1f} s"
