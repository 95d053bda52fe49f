"""One look at an app and its nodes: what does not answer is missing, and nothing else fails because of it."""

from __future__ import annotations

from fogctl.agent.knowledge import Knowledge, StageKnowledge
from fogctl.agent.observation import Observation
from fogctl.agent.settings import Guard
from fogctl.agent.target import Facts, Target
from fogctl.errors import FogError
from fogctl.metrics.values import NodeMetrics, StageMetrics


def collect(target: Target, app: str, *, arrivals: bool = True) -> Observation:
    """The app as it is now; FogError if it is not deployed any more."""
    deployment = target.deployment(app)
    others = target.others(app)
    stages: tuple[StageMetrics, ...] = ()
    nodes: tuple[NodeMetrics, ...] = ()
    try:
        stages = target.reader.stages(app)
    except FogError:
        stages = ()
    try:
        nodes = target.reader.nodes()
    except FogError:
        nodes = ()
    return Observation(
        at_s=target.now_s(),
        app=app,
        stages=stages,
        nodes=nodes,
        deployment=deployment,
        arrivals=target.arrivals(app) if arrivals else {},
        others=others,
        host=target.host(),
    )


def given(facts: Facts, target: Target, guard: Guard) -> Knowledge:
    """What is known before anything was seen: stages, limits, nodes, distances."""
    stages = {}
    for stage in facts.stages:
        least, most = guard.limits(stage.stage)
        stages[stage.stage] = StageKnowledge(stage, least, len(facts.edge) if most is None else most)
    return Knowledge(target.latencies, facts.origins, facts.edge, stages)
