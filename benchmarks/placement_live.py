"""Placements compared on a live testbed: the same app and the same input under each."""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from fogmodels.placement.costs import placement
from fogmodels.scalability import lag_trend
from kafka import KafkaConsumer, TopicPartition

from benchmarks.campaign import Key, Notes, bed_up, data_of, told
from fogctl.errors import FogError
from fogctl.experiment.host import Busy
from fogctl.placement import Planned, Profile, Strategy
from fogctl.placement.bed import Bed, Wish, labels, nodes_by_app, placed
from fogctl.placement.measure import measure as measure_profile
from fogctl.placement.profile import write_profile
from fogctl.placement.together import Together
from fogctl.planner.live import LiveMeasure
from fogctl.planner.measure import Window
from fogctl.runtime import app as app_files
from fogctl.runtime.app import App
from fogctl.runtime.app_options import with_options
from fogctl.runtime.operate import Apps

WARM_S, OBSERVE_S = 10.0, 25.0
"""With simulated batches of 2 to 3 s a run's throughput then varies by 1 to 5 % where the app keeps up,
by 6 to 8 % where it does not (standard deviation); 5 s more make it hardly less. The table has ten runs."""
DRAIN_S, DRAINS = 4.0, 12
"""A look at a backlog, and how many are had before the app is deployed anew."""
INPUT = 0.75
"""The fixed input, as a share of what the placement `auto` processes when it has more than enough."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An app as it is compared: enough work in its heavy stage that a few dozen records a second fill it."""

    name: str
    options: tuple[str, ...]
    replicas: Mapping[str, int]
    overload_per_s: float
    """More than any placement takes."""

    @property
    def app(self) -> App:
        """With its options."""
        return with_options(app_files.load(self.name), self.options)


TAXI3 = Subject("taxi3", ("measure.work=100000",), {"parse": 1, "measure": 3, "choose": 1}, 150.0)
Q5 = Subject("nexmark-q5", ("q5.work=50000", "q5.time=arrival"), {"q5": 3}, 300.0)
SUBJECTS = {each.name: each for each in (TAXI3, Q5)}


@dataclass(slots=True)
class Bench:
    """Apps on a testbed that are placed one way after the other, loaded and watched."""

    apps: Apps
    folder: Path
    slots: int
    """Replicas that a node may hold; each has that part of it."""
    profiles: dict[str, Profile] = field(default_factory=dict)
    loaded: dict[str, LiveMeasure] = field(default_factory=dict)

    def plan(
        self,
        subjects: Sequence[Subject],
        strategy: Strategy,
        seed: int = 0,
        replicas: Mapping[str, int] | None = None,
    ) -> Planned:
        """The nodes that a strategy chooses for these apps together."""
        apps = [each.app for each in subjects]
        own = {(each.name, stage): count for each in subjects for stage, count in each.replicas.items()}
        wanted = {label: own[where] for label, where in labels(apps).items()}
        files = []
        for each in subjects:
            if each.name in self.profiles and strategy is Strategy.auto:
                files.append(self.folder / f"{each.name}.json")
                write_profile(self.profiles[each.name], files[-1])
        wish = Wish(strategy, replicas or wanted, tuple(files), seed, self.slots)
        return placed(apps, Bed.running(self.apps), wish)

    def deploy(self, subjects: Sequence[Subject], planned: Planned) -> int:
        """Move the apps there; answers how many replicas were started."""
        apps = [each.app for each in subjects]
        try:
            steps = Together(self.apps, apps, nodes_by_app(apps, planned), 1 / self.slots).deploy(
                lambda _: None
            )
        except FogError as error:
            # Two apps that wait for each other's nodes: begin from none.
            told(f"deployed anew: {error.message}")
            self.clear()
            steps = Together(self.apps, apps, nodes_by_app(apps, planned), 1 / self.slots).deploy(
                lambda _: None
            )
        for each, app in zip(subjects, apps, strict=True):
            if each.name not in self.loaded:
                self.loaded[each.name] = LiveMeasure(self.apps, app, data_of(each.name), each.replicas)
        return sum("add a replica" in step.describe() for own in steps.values() for step in own)

    def clear(self) -> None:
        """Remove every app, with what waits for it."""
        self.loaded.clear()
        for each in self.apps.deployments():
            self.apps.remove(each.app)

    def settle(self, subjects: Sequence[Subject], planned: Planned, rates: Mapping[str, float]) -> None:
        """Work off what an earlier placement left, or begin anew; then warm up at the rate."""
        for _ in range(DRAINS):
            looks = self.run({each.name: 0.05 * rates[each.name] for each in subjects}, DRAIN_S)
            if all(look.lags[-1] <= 2 * rates[name] for name, look in looks.items() if look.lags):
                break
        else:
            self.clear()
            self.deploy(subjects, planned)
        self.run(rates, WARM_S)

    def run(self, rates: Mapping[str, float], seconds: float) -> dict[str, Window]:
        """Load apps at once, each at its rate."""
        found: dict[str, Window] = {}
        trouble: list[BaseException] = []

        def load(name: str, rate: float) -> None:
            try:
                found[name] = self.loaded[name].run(rate, seconds)
            except BaseException as error:
                trouble.append(error)

        first, *others = rates.items()
        threads = [threading.Thread(target=load, args=each, daemon=True) for each in others]
        for thread in threads:
            thread.start()
        load(*first)  # in this thread, which hears of Ctrl-C
        for thread in threads:
            thread.join()
        if trouble:
            raise trouble[0]
        return found


@contextlib.contextmanager
def bench(profiles: Mapping[str, Mapping[str, Any]], slots: int) -> Iterator[Bench]:
    """The testbed of beds/placement.yaml, and the profiles that were measured before."""
    with tempfile.TemporaryDirectory(prefix="fog-place-") as folder, bed_up("placement") as apps:
        known = {name: Profile.model_validate(data) for name, data in profiles.items()}
        yield Bench(apps, Path(folder), slots, known)


def calibrate(keys: Sequence[Key], notes: Notes, each_s: float, slots: int) -> None:
    """A profile of each app, and what it processes when it is placed by that and has more than enough."""
    with bench({}, slots) as here:
        for key in keys:
            subject = SUBJECTS[key["app"]]
            here.deploy([subject], here.plan([subject], Strategy.spread))
            with _loaded(here, subject, 70.0):
                time.sleep(25.0)
                profile = measure_profile(here.apps, subject.name, 30.0)
            here.profiles[subject.name] = profile
            here.clear()
            planned = here.plan([subject], Strategy.auto)
            here.deploy([subject], planned)
            here.run({subject.name: subject.overload_per_s}, 30.0)
            seen = here.run({subject.name: subject.overload_per_s}, 40.0)[subject.name]
            capacity = figures(seen, subject.overload_per_s)["throughput_per_s"]
            here.clear()
            found = {"capacity_per_s": capacity, "profile": profile.model_dump(mode="json")}
            notes.add("calibrate", key, found, each_s)


@contextlib.contextmanager
def _loaded(here: Bench, subject: Subject, seconds: float) -> Iterator[None]:
    """Records meanwhile."""
    name = subject.name
    thread = threading.Thread(
        target=lambda: here.loaded[name].run(0.5 * subject.overload_per_s, seconds), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        thread.join()


def compare(part: str, keys: Sequence[Key], notes: Notes, each_s: float, slots: int) -> None:
    """One app, or both, at a fixed input under each placement; moved on, not deployed anew."""
    # Together they must fit one after the other too, around what the first one has taken.
    both = [TAXI3, replace(Q5, replicas={"q5": 2})]
    subjects = both if part == "together" else [SUBJECTS[part]]
    known = {each.name: notes.find("calibrate", {"app": each.name}) or {} for each in subjects}
    share = INPUT if len(subjects) == 1 else INPUT / 2
    rates = {name: share * line["capacity_per_s"] for name, line in known.items()}
    with bench({name: line["profile"] for name, line in known.items()}, slots) as here:
        for key in keys:
            planned, moved = _placed(here, subjects, key)
            here.settle(subjects, planned, rates)
            busy = Busy()
            since_ms = time.time() * 1000
            seen = here.run(rates, OBSERVE_S)
            found = {
                each.name: {
                    "rate_per_s": rates[each.name],
                    **figures(seen[each.name], rates[each.name]),
                    **latencies(here.apps, each, since_ms),
                }
                for each in subjects
            }
            about = {
                "nodes": {label: list(nodes) for label, nodes in planned.nodes.items()},
                "cost": planned.placement.cost,
                "started": moved,
                "host_busy": busy.since_last(),
            }
            notes.add(part, key, {"apps": found, **about}, each_s)


def _placed(here: Bench, subjects: Sequence[Subject], key: Key) -> tuple[Planned, int]:
    """The plan of a key, deployed; `auto-in-turn` places one app after the other, around those before it."""
    if key["place"] != "auto-in-turn":
        planned = here.plan(subjects, Strategy(key["place"]), key["seed"])
        return planned, here.deploy(subjects, planned)
    here.clear()
    started = 0
    for count in range(1, len(subjects) + 1):
        own = here.plan(subjects[count - 1 : count], Strategy.auto)
        started += here.deploy(subjects[count - 1 : count], own)
    problem = here.plan(subjects, Strategy.auto).problem
    where = {
        label: here.apps.get(app).stage(stage).nodes
        for label, (app, stage) in labels([each.app for each in subjects]).items()
    }
    table = np.array([[int(w.name in where[op.id]) for op in problem.operators] for w in problem.workers])
    return Planned(Strategy.auto, where, problem, placement(problem, table), None), started


def figures(seen: Window, rate_per_s: float) -> dict[str, float]:
    """Throughput and lag. What comes in and does not wait longer and longer somewhere is processed: that is
    surer than counting batches, of which a window holds few."""
    slope = lag_trend(seen.times_s, seen.lags, cycle_s=seen.cycle_s).slope_per_s
    return {
        "throughput_per_s": min(rate_per_s, max(0.0, rate_per_s - slope)),
        "lag_growth_per_s": slope,
        "lag_end": seen.lags[-1],
        "lag_mean": statistics.fmean(seen.lags),
    }


def latencies(apps: Apps, subject: Subject, since_ms: float) -> dict[str, float | None]:
    """Seconds from a record's arrival to its result; for windows, from a window's end to its result."""
    app = subject.app
    with apps.ground.kafka() as connection:
        consumer = KafkaConsumer(
            **connection.for_kafka_python(), enable_auto_commit=False, fetch_max_wait_ms=100
        )
        try:
            left = list(_since(consumer, app.topic(app.sinks[0]), since_ms))
            if app.sinks[0] in app.numbered:
                born = {record.key: record.timestamp for record in
                        _since(consumer, app.topic(app.sources[0]), since_ms)}  # fmt: skip
                taken = [(r.timestamp - born[r.key]) / 1e3 for r in left if r.key in born]
            else:
                ends = [json.loads(record.value)["to"] for record in left]
                taken = [(r.timestamp / 1e3 - epoch_of(end)) for r, end in zip(left, ends, strict=True)]
        finally:
            consumer.close()
    if len(taken) < 2:
        return {"latency_p50_s": None, "latency_p95_s": None}
    cuts = statistics.quantiles(taken, n=20)
    return {"latency_p50_s": round(cuts[9], 3), "latency_p95_s": round(cuts[18], 3)}


def epoch_of(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _since(consumer: Any, topic: str, since_ms: float) -> Iterator[Any]:
    """The records that came into a topic from a moment on."""
    parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    starts = consumer.offsets_for_times({part: int(since_ms) for part in parts})
    ends = consumer.end_offsets(parts)
    there = [part for part in parts if starts.get(part) is not None]
    if not there:
        return
    consumer.assign(there)
    for part in there:
        consumer.seek(part, starts[part].offset)
    deadline = time.monotonic() + 30
    while any(consumer.position(part) < ends[part] for part in there) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500, max_records=10_000).values():
            yield from records
