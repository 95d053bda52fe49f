"""How ds2 scales an app under each placement: steps until it settles after the load doubled, and halved."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.campaign import Key, Notes
from benchmarks.placement_live import TAXI3, Bench, bench, figures
from fogctl.agent.events import MemoryLog
from fogctl.agent.live import LiveTarget
from fogctl.agent.loop import Agent
from fogctl.agent.policies.ds2 import Ds2
from fogctl.agent.settings import AgentSettings
from fogctl.agent.store import MemoryStore
from fogctl.placement import Strategy
from fogctl.placement.kept import keep

BASE_S, CHANGED_S, SETTLED_S = 50.0, 120.0, 30.0
"""How long the first rate lasts, how long each other, and how much of its end shows the result."""
LOW, HIGH = 0.3, 0.6
"""The two rates, of what three replicas of the heavy stage process."""
REACHED = 0.97
AGENT = {
    "every": "5s",
    "guard": {"window": "20s", "stabilise": "20s", "scale_in_delay": "20s", "catch_up": "60s"},
}


def scale(keys: Sequence[Key], notes: Notes, each_s: float, slots: int) -> None:
    """ds2 under each placement: one replica a stage, then the load doubles, then it halves."""
    line = notes.find("calibrate", {"app": TAXI3.name}) or {}
    low, high = (share * line["capacity_per_s"] for share in (LOW, HIGH))
    one = dict.fromkeys(TAXI3.replicas, 1)
    with bench({TAXI3.name: line["profile"]}, slots) as here:
        for key in keys:
            here.clear()
            here.deploy([TAXI3], here.plan([TAXI3], Strategy(key["place"]), key["seed"], one))
            keep(here.apps.ground.folder, here.profiles[TAXI3.name])
            log = MemoryLog()
            found: dict[str, Any] = {"low_per_s": low, "high_per_s": high}
            with _agent(here, Ds2(key["place"], key["seed"]), log):
                here.run({TAXI3.name: low}, BASE_S)
                for name, rate in (("doubled", high), ("halved", low)):
                    began = time.time()
                    here.run({TAXI3.name: rate}, CHANGED_S - SETTLED_S)
                    seen = here.run({TAXI3.name: rate}, SETTLED_S)[TAXI3.name]
                    placed_now = here.apps.get(TAXI3.name)
                    settled = figures(seen, rate)
                    found[name] = {
                        **steps(log.events, began),
                        **settled,
                        "reached": settled["throughput_per_s"] >= REACHED * rate,
                        "replicas": {each.stage: len(each.replicas) for each in placed_now.stages},
                    }
            notes.add("scale", key, found, each_s)


def steps(events: Sequence[Mapping[str, Any]], since_s: float) -> dict[str, Any]:
    """How many changes of replicas were made since then, and when the last one was."""
    made = [event["at_s"] for event in events if event["what"] == "applied" and event["at_s"] >= since_s]
    return {"steps": len(made), "last_after_s": round(made[-1] - since_s, 1) if made else 0.0}


@contextlib.contextmanager
def _agent(here: Bench, policy: Ds2, log: MemoryLog) -> Iterator[None]:
    """An agent at work on taxi3 meanwhile."""
    over = threading.Event()
    settings = AgentSettings.model_validate(AGENT)
    target = LiveTarget(here.apps.ground, window_s=settings.guard.window, stopping=over.is_set)
    agent = Agent(target, TAXI3.name, policy, settings, MemoryStore(), log)
    thread = threading.Thread(target=lambda: agent.run(stop=over.is_set), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=120)
