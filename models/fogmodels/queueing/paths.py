"""Applications as queueing networks (MEAD section V-A): stages, paths, and response times along a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fogmodels.arrivals import MAP, fit_map
from fogmodels.arrivals.trace import inter_arrival_times
from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.replay import lindley
from fogmodels.queueing.response import MatrixExponential, ResponseTime, Sampled, Unstable
from fogmodels.queueing.single_server import solve

Method = Literal["source", "departures"]

_MOST_STATES = 16
_DEPARTURES = 100_000


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream between two stages that passes on each tuple with probability `keep`."""

    source: str
    target: str
    keep: float = 1.0


@dataclass(frozen=True, slots=True)
class Application:
    """A DAG of stages, each one server with its service time; a stage copies its output to every edge."""

    services: Mapping[str, PhaseType]
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        if not self.services:
            raise ValueError("an application needs at least one stage")
        for edge in self.edges:
            for name in (edge.source, edge.target):
                if name not in self.services:
                    raise ValueError(f"edge {edge.source} -> {edge.target} names an unknown stage {name!r}")
            if not 0 < edge.keep <= 1:
                raise ValueError(
                    f"edge {edge.source} -> {edge.target} must keep a share in (0, 1], not {edge.keep}"
                )
        if len({(edge.source, edge.target) for edge in self.edges}) < len(self.edges):
            raise ValueError("an edge must not be given twice")
        try:
            self.order()
        except CycleError as error:
            raise ValueError(f"the stages form a cycle: {' -> '.join(error.args[1])}") from error

    def order(self) -> list[str]:
        """Stages with every source before its targets."""
        sorter: TopologicalSorter[str] = TopologicalSorter({name: set() for name in self.services})
        for edge in self.edges:
            sorter.add(edge.target, edge.source)
        return list(sorter.static_order())

    def incoming(self, stage: str) -> list[Edge]:
        """Edges into a stage."""
        return [edge for edge in self.edges if edge.target == stage]

    def paths(self) -> list[tuple[str, ...]]:
        """All source-to-sink paths, in the stages' order."""
        following: dict[str, list[str]] = {name: [] for name in self.services}
        for edge in self.edges:
            following[edge.source].append(edge.target)

        def extend(path: tuple[str, ...]) -> list[tuple[str, ...]]:
            after = following[path[-1]]
            return [path] if not after else [long for name in after for long in extend((*path, name))]

        return [path for name in self.services if not self.incoming(name) for path in extend((name,))]


def stage_arrivals(app: Application, arrivals: MAP, method: Method = "source") -> dict[str, MAP]:
    """The arrival process at each stage.

    "source": every stage sees the external process, thinned on the way, as if the stages before it
    did not reshape it: right at low load and on the safe side for bursty input. "departures": the
    stream out of a stage is sampled (fixed seed) and fitted anew, which follows the smoothing of a
    busy stage. Both are approximations: no queue but the first has exact MAP arrivals.
    """
    if method not in ("source", "departures"):
        raise ValueError(f'the method is "source" or "departures", not {method!r}')
    at: dict[str, MAP] = {}
    for stage in app.order():
        edges = app.incoming(stage)
        streams = []
        for edge in edges:
            process = at[edge.source]
            if method == "departures":
                process = departures(process, app.services[edge.source])
            streams.append(process.thinned(edge.keep))
        at[stage] = _merged(streams) if streams else arrivals
    return at


def departures(arrivals: MAP, service: PhaseType, events: int = _DEPARTURES, seed: int = 0) -> MAP:
    """The stream that leaves a MAP/PH/1 stage, as a MAP: sampled with a fixed seed, then fitted."""
    utilisation = service.mean / arrivals.mean
    if not utilisation < 1:
        raise Unstable(utilisation)
    rng = np.random.default_rng(seed)
    gaps = arrivals.sample(events, rng)
    leaving = np.concatenate([[0.0], np.cumsum(gaps[:-1])]) + lindley(gaps, service.sample(events, rng))
    return fit_map(np.diff(leaving)).scaled(arrivals.mean)


def solve_stages(app: Application, arrivals: MAP, method: Method = "source") -> dict[str, ResponseTime]:
    """Response time of every stage on its own; raises Unstable where a stage is overloaded."""
    at = stage_arrivals(app, arrivals, method)
    return {name: solve(at[name], app.services[name]) for name in app.services}


def along(stages: Sequence[ResponseTime]) -> ResponseTime:
    """Response time along a path of solved stages.

    The mean is the sum of the stages' means, whatever their dependence. The percentiles take the
    stages' response times as independent: they are not (a burst delays a tuple everywhere), so
    high percentiles of several loaded stages come out somewhat low.
    """
    if not stages:
        raise ValueError("a path needs at least one stage")
    parts = []
    for stage in stages:
        if not isinstance(stage.distribution, MatrixExponential):
            raise ValueError("a path is made of solved MAP/PH/1 stages")
        parts.append(stage.distribution.phase_type())
    sizes = [start.size for start, _ in parts]
    rates = np.zeros((sum(sizes), sum(sizes)))
    first = 0
    for i, (_, inner) in enumerate(parts):
        here = slice(first, first + sizes[i])
        rates[here, here] = inner
        first += sizes[i]
        if i + 1 < len(parts):
            rates[here, first : first + sizes[i + 1]] = np.outer(
                np.maximum(-inner.sum(axis=1), 0), parts[i + 1][0]
            )
    start = np.zeros(sum(sizes))
    start[: sizes[0]] = parts[0][0]
    return ResponseTime(
        mean=sum(stage.mean for stage in stages),
        utilisation=max(stage.utilisation for stage in stages),
        method=f"path of {len(stages)} MAP/PH/1",
        distribution=MatrixExponential(start, rates, np.ones(start.size)),
    )


def replay_path(iats: ArrayLike, services: Sequence[PhaseType], runs: int = 8, seed: int = 0) -> ResponseTime:
    """A recorded window through stages in a row: departures feed the next stage, nothing approximated."""
    times = inter_arrival_times(iats)
    if not services or int(runs) != runs or runs < 1:
        raise ValueError("a path needs at least one stage and one run")
    utilisation = max(service.mean for service in services) / float(times.mean())
    if not utilisation < 1:
        raise Unstable(utilisation)
    rng = np.random.default_rng(seed)
    entered = np.concatenate([[0.0], np.cumsum(times[:-1])])
    totals = []
    for _ in range(int(runs)):
        clock = entered
        for service in services:
            clock = clock + lindley(np.diff(clock), service.sample(times.size, rng))
        totals.append(clock - entered)
    responses = np.sort(np.concatenate(totals))
    return ResponseTime(
        mean=float(responses.mean()),
        utilisation=utilisation,
        method=f"replay through {len(services)} stages",
        distribution=Sampled(responses),
    )


def _merged(streams: Sequence[MAP]) -> MAP:
    merged = streams[0]
    for stream in streams[1:]:
        merged = merged.superposed(stream)
        if merged.states > _MOST_STATES:
            mean = merged.mean
            merged = fit_map(merged.sample(_DEPARTURES, np.random.default_rng(0))).scaled(mean)
    return merged
