"""The loop on a tiny plant: it scales, tells why, survives being killed anywhere, and goes on on bad days."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from fogctl.agent.events import FileLog, MemoryLog, read
from fogctl.agent.loop import Agent
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.policy import make as policy
from fogctl.agent.settings import AgentSettings, Guard
from fogctl.agent.state import from_json, to_json
from fogctl.agent.store import FileStore, MemoryStore
from fogctl.errors import ChangeInterruptedError, FogError

GUARD = Guard(window="10s", stabilise="10s", scale_in_delay="20s", catch_up="30s", cool_off="30s")
SETTINGS = AgentSettings(every="5s", guard=GUARD)


class Killed(BaseException):
    """What kill -9 looks like from inside: nothing after this line runs."""


def agent(plant, name: str = "gesscale", *, store=None, log=None, settings=SETTINGS, **given) -> Agent:
    return Agent(plant, "toy", policy(name), settings, store or MemoryStore(), log or MemoryLog(), **given)


def surge(at_s: float) -> float:
    """40 records a second, 150 between 60 s and 400 s."""
    return 150.0 if 60.0 <= at_s < 400.0 else 40.0


SCALING = ["thr-nlaware", "gesscale", "gesscale-spark", "ds2", "mdl-nlunaware", "hybrid"]


@pytest.mark.parametrize("name", SCALING)
def test_replicas_follow_the_load_up_and_down(make, name) -> None:
    plant = make.plant(rate=surge)
    log = MemoryLog()
    most = 0

    def watch(_) -> None:
        nonlocal most
        most = max(most, len(plant.placed.stage("work").replicas))

    agent(plant, name, log=log).run(900.0, on_decision=watch)
    assert most >= 3  # 150 records a second need three replicas of 60
    assert plant.lag < 100
    replicas = plant.placed.stage("work").replicas
    assert sum(replica.share for replica in replicas) <= 1.1
    assert len(replicas) == 1 or name == "hybrid"
    assert not [event for event in log.events if event["what"] in ("failed", "policy failed")]


def test_every_decision_has_reason_numbers_prediction_and_later_its_effect(make) -> None:
    log = MemoryLog()
    agent(make.plant(rate=surge), "gesscale", log=log).run(400.0)
    kinds = [event["what"] for event in log.events]
    assert kinds[0] == "agent started"
    assert kinds[-1] == "agent stopped"
    decisions = [event for event in log.events if event["what"] == "decision"]
    assert [event["decision"] for event in decisions] == list(range(1, len(decisions) + 1))
    assert all(event["reason"] for event in decisions)
    made = [event for event in decisions if event["actions"]]
    applied = [event for event in log.events if event["what"] == "applied"]
    assert made
    assert [event["decision"] for event in applied] == [event["decision"] for event in made]
    assert {"work.mst", "work.replicas"} <= set(made[0]["predicted"])
    assert made[0]["numbers"]["work.input_rate"] == 150.0
    seen = {event["decision"]: event for event in log.events if event["what"] == "observed"}
    last = seen[max(seen)]
    assert last["observed"]["work.replicas"] == last["predicted"]["work.replicas"]
    assert last["off"]["work.replicas"] == 0.0
    assert json.loads(json.dumps(log.events)) == log.events


def test_the_stall_of_a_change_is_measured(make) -> None:
    plant = make.plant(rate=lambda _: 100.0, per_replica=110.0, change_takes_s=8.0)
    inner = plant.apply

    def stalling(app, plan) -> None:
        inner(app, plan)
        plant.lag += 700.0  # seven seconds of input piled up

    plant.apply = stalling
    log = MemoryLog()
    running = agent(plant, log=log)
    running.policy = Once(Plan((Scale("work", ("pi1", "pi2")),), "once"))
    running.run(60.0)
    (effect,) = [event for event in log.events if event["what"] == "observed"]
    assert effect["stall_s"] == pytest.approx(7.0, abs=0.1)
    assert running.known.stage("work").stalls_s == {"out": (pytest.approx(7.0, abs=0.1),)}


def test_lag_that_overload_alone_explains_is_no_stall(make) -> None:
    plant = make.plant(rate=lambda at_s: 20.0 if at_s < 2.0 else 160.0, change_takes_s=25.0)
    log = MemoryLog()
    running = agent(plant, log=log)
    running.policy = Once(Plan((Scale("work", ("pi1", "pi2", "pi3")),), "once"))
    running.run(80.0)
    (effect,) = [event for event in log.events if event["what"] == "observed"]
    assert effect["stall_s"] < 3.0


class Once:
    """A policy that wants one thing, once."""

    name = "once"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def decide(self, _seen, known) -> Plan:
        return self.plan if known.decisions == 0 else Plan.keep("done")


class Insisting(Once):
    """A policy that wants one thing, always."""

    name = "insisting"

    def decide(self, _seen, _known) -> Plan:
        return self.plan


# Killed


POINTS = [
    "before the intent",
    "after the intent",
    "before acting",
    "half way",
    "after acting",
    "after the outcome",
    "writing the event",
    "writing the outcome",
]


class FlakyLog(MemoryLog):
    """A log during whose first such event about a change the process dies."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def write(self, event) -> None:
        if event["what"] == self.what and event.get("actions", True):
            self.what = ""
            raise Killed
        super().write(event)


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_goes_on_and_does_nothing_twice(make, tmp_path: Path, point: str) -> None:
    plant = make.plant(rate=lambda _: 100.0)
    store = FileStore(tmp_path / "state.json")
    dies_at = {"writing the event": "decision", "writing the outcome": "applied"}
    log = FlakyLog(dies_at[point]) if point in dies_at else MemoryLog()
    plan = Plan((Scale("work", ("pi1", "pi2", "pi3")),), "three")
    first = agent(plant, store=store, log=log)
    first.policy = Once(plan)
    save, apply, saves = store.save, plant.apply, 0

    def dying_save(state) -> None:
        nonlocal saves
        saves += 1
        if saves == 1 and point == "before the intent":
            raise Killed
        save(state)
        if saves == 1 and point == "after the intent":
            raise Killed
        if saves == 2 and point == "after the outcome":
            raise Killed

    def dying_apply(app, asked) -> None:
        if point == "before acting":
            raise Killed
        if point == "half way":
            apply(app, Plan((Scale("work", ("pi1", "pi2")),), "half"))
            raise Killed
        apply(app, asked)
        if point == "after acting":
            raise Killed

    store.save, plant.apply = dying_save, dying_apply
    with pytest.raises(Killed):
        first.run(60.0)
    store.save, plant.apply = save, apply
    changes = len(plant.applied)

    again = agent(plant, store=FileStore(tmp_path / "state.json"), log=log)
    again.policy = Once(plan)
    again.run(plant.clock + 60.0)
    placed = plant.placed.stage("work").nodes
    done = changes >= 1 and point != "half way"
    if done:
        assert len(plant.applied) == changes  # what was done is not done again
    # Whatever had begun is complete; what had not begun was decided anew or dropped.
    assert placed in (("pi1", "pi2", "pi3"), ("pi1",))
    assert placed == ("pi1", "pi2", "pi3") or point in (
        "after the intent",
        "before acting",
        "writing the event",
    )
    assert store.load().intent is None
    resumed = [event for event in log.events if event["what"] == "resumed"]
    found = {
        "after the intent": "not begun",
        "before acting": "not begun",
        "writing the event": "not begun",
        "half way": "half done",
        "after acting": "done",
        "writing the outcome": "done",
    }
    assert [event["found"] for event in resumed] == ([found[point]] if point in found else [])
    # Whoever died in between, what came of a change that was made is told, once.
    observed = [event for event in log.events if event["what"] == "observed"]
    assert len(observed) == (1 if placed == ("pi1", "pi2", "pi3") else 0)
    for event in observed:
        assert event["kind"] == "out"
        assert event["observed"]["work.replicas"] == 3.0


def test_after_a_restart_it_knows_what_it_had_learned(make, tmp_path: Path) -> None:
    plant = make.plant(rate=surge)
    store = FileStore(tmp_path / "state.json")
    first = agent(plant, "gesscale-spark", store=store)
    first.run(300.0)
    second = agent(plant, "gesscale-spark", store=FileStore(tmp_path / "state.json"))
    assert second.known == first.known
    assert second.state == first.state
    assert second.known.stage("work").batches
    log = MemoryLog()
    third = agent(plant, "gesscale-spark", store=store, log=log)
    third.run(plant.clock + 5.0)
    assert log.events[0]["model"] == "from earlier samples"
    assert third.known.decisions == first.known.decisions + 1


def test_the_state_survives_as_json_to_the_last_digit(make) -> None:
    running = agent(make.plant(rate=surge), "ds2")
    running.run(250.0)
    assert from_json(json.loads(json.dumps(to_json(running.state)))) == running.state


def test_a_first_run_says_that_it_has_no_model(make) -> None:
    log = MemoryLog()
    agent(make.plant(), "gesscale-spark", log=log).run(5.0)
    assert "none yet" in log.events[0]["model"]


# Dry run


def test_advice_changes_and_keeps_nothing(make, tmp_path: Path) -> None:
    plant = make.plant(rate=lambda _: 150.0)
    log = MemoryLog()
    store = FileStore(tmp_path / "state.json")
    agent(plant, "gesscale", store=store, log=log, dry_run=True).run(120.0)
    assert plant.applied == []
    assert not (tmp_path / "state.json").exists()
    advice = [event for event in log.events if event.get("outcome") == "advised"]
    assert advice
    assert advice[0]["changes"] == "work on pi1, pi2"


# Bad days


def test_a_failed_change_is_said_and_not_tried_again_at_once(make) -> None:
    tries: list[float] = []
    plant = make.plant(rate=lambda _: 100.0)

    def failing(plan) -> str | None:
        tries.append(plant.clock)
        return "the replica on pi2 did not register"

    plant.fail = failing
    log = MemoryLog()
    running = agent(plant, log=log)
    running.policy = Insisting(Plan((Scale("work", ("pi1", "pi2")),), "always"))
    running.run(200.0)
    failed = [event for event in log.events if event["what"] == "failed"]
    assert len(failed) == len(tries)
    assert "did not register" in failed[0]["error"]
    gaps = [b - a for a, b in itertools.pairwise(tries)]
    assert gaps[0] >= 30.0
    assert gaps[1] >= 60.0


def test_ctrl_c_in_the_middle_of_a_change_is_noted_and_ends_the_agent(make) -> None:
    plant = make.plant(rate=lambda _: 100.0)

    def interrupted(plan) -> None:
        raise ChangeInterruptedError("interrupted", hint="what had been changed was undone")

    plant.fail = interrupted
    log = MemoryLog()
    running = agent(plant, log=log)
    running.policy = Insisting(Plan((Scale("work", ("pi1", "pi2")),), "always"))
    with pytest.raises(KeyboardInterrupt):
        running.run(200.0)
    (failed,) = [event for event in log.events if event["what"] == "failed"]
    assert "was undone" in failed["error"]
    assert running.state.intent is None


def test_frozen_metrics_stop_changes_until_they_thaw(make) -> None:
    plant = make.plant(rate=lambda _: 150.0)
    log = MemoryLog()
    running = agent(plant, "gesscale", log=log)
    plant.frozen_at = -100.0
    running.run(100.0)
    assert plant.applied == []
    assert any(note["guard"] == "stale metrics" for e in log.events for note in e.get("guards", []))
    plant.frozen_at = None
    running.run(200.0)
    assert plant.applied


def test_a_stage_that_does_not_answer_stops_changes_but_not_the_agent(make) -> None:
    plant = make.plant(rate=lambda _: 150.0)
    plant.silent = True
    log = MemoryLog()
    running = agent(plant, "gesscale", log=log)
    running.run(50.0)
    assert plant.applied == []
    assert "no metrics" in log.events[1]["reason"]
    plant.silent = False
    running.run(150.0)
    assert plant.applied


def test_a_policy_with_a_bug_changes_nothing_and_the_loop_goes_on(make) -> None:
    class Broken:
        name = "broken"

        def decide(self, _seen, _known) -> Plan:
            raise ZeroDivisionError("oops")

    plant = make.plant()
    log = MemoryLog()
    running = agent(plant, log=log)
    running.policy = Broken()
    running.run(20.0)
    failed = [event for event in log.events if event["what"] == "policy failed"]
    assert len(failed) == 4
    assert "ZeroDivisionError: oops" in failed[0]["error"]
    assert "Traceback" in failed[0]["error"]


def test_it_stops_when_the_app_is_removed(make) -> None:
    plant = make.plant()
    running = agent(plant)
    running.run(20.0)

    def gone(_app):
        raise FogError("app toy is not deployed")

    plant.deployment = gone
    with pytest.raises(FogError, match="not deployed"):
        running.run(40.0)


def test_a_full_disk_stops_it_before_anything_is_changed(make, tmp_path: Path) -> None:
    plant = make.plant(rate=lambda _: 100.0)
    (tmp_path / "state.new").symlink_to("/dev/full")
    running = agent(plant, store=FileStore(tmp_path / "state.json"))
    running.policy = Once(Plan((Scale("work", ("pi1", "pi2")),), "once"))
    with pytest.raises(FogError, match=r"cannot keep its state: No space left .*nothing further is changed"):
        running.run(60.0)
    assert plant.applied == []


def test_a_state_file_that_is_none_is_put_aside(make, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"version": 1, "stages"')
    running = agent(make.plant(), store=FileStore(tmp_path / "state.json"))
    running.run(5.0)
    assert (tmp_path / "state.unreadable").read_text().startswith('{"version"')
    assert FileStore(tmp_path / "state.json").load() == running.state


def test_the_event_log_survives_a_line_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "run" / "events.jsonl"
    log = FileLog(file)
    log.write({"at_s": 1.0, "what": "decision"})
    with file.open("a") as stream:
        stream.write('{"at_s": 2.0, "wha')
    assert [event["at_s"] for event in read(file)] == [1.0]
    assert list(read(tmp_path / "none.jsonl")) == []


def test_additions_that_gain_nothing_are_noticed(make) -> None:
    plant = make.plant(rate=lambda _: 200.0, lag=5000.0)
    plant.capacity = lambda: 60.0  # something else is the bottleneck
    log = MemoryLog()
    agent(plant, "gesscale", log=log).run(400.0)
    assert len(plant.placed.stage("work").replicas) == 3
    assert any(note["guard"] == "ineffective scaling" for e in log.events for note in e.get("guards", []))


def test_a_lost_node_is_told_once_and_used_no_more_until_it_is_back(make) -> None:
    plant = make.plant(rate=lambda _: 150.0)
    log = MemoryLog()
    running = agent(plant, "gesscale", log=log)
    plant.lost = {"pi2"}
    running.run(150.0)
    used = plant.placed.stage("work").nodes
    assert "pi2" not in used
    assert len(used) > 1
    plant.lost = set()
    running.run(200.0)
    told = [(e["what"], e["node"]) for e in log.events if e["what"] in ("node lost", "node back")]
    assert told == [("node lost", "pi2"), ("node back", "pi2")]
    assert next(e for e in log.events if e["what"] == "node back")["after_s"] >= 150.0


def test_a_lost_node_names_the_stages_that_ran_there(make) -> None:
    plant = make.plant()
    log = MemoryLog()
    running = agent(plant, "gesscale", log=log)
    running.run(10.0)
    plant.lost = {"pi1"}
    running.run(20.0)
    lost = [e for e in log.events if e["what"] == "node lost"]
    assert [(e["node"], e["stages"]) for e in lost] == [("pi1", ["work"])]
    assert plant.placed.stage("work").nodes != ("pi1",), "the stage moves to a node that answers"


def test_when_nobody_answers_no_single_node_is_called_lost(make) -> None:
    plant = make.plant()
    log = MemoryLog()
    running = agent(plant, "gesscale", log=log)
    plant.lost = {"cloud", "broker", *plant.nodes_at}
    running.run(30.0)
    assert not [e for e in log.events if e["what"] == "node lost"]


def test_a_testbed_that_is_away_for_a_while_is_waited_for_and_nothing_is_done_twice(
    make, tmp_path: Path
) -> None:
    plant = make.plant(rate=lambda _: 150.0)
    log = MemoryLog()
    store = FileStore(tmp_path / "state.json")
    running = agent(plant, "gesscale", log=log, store=store)
    running.run(40.0)
    plant.away = True
    running.run(80.0)
    told = [e["what"] for e in log.events]
    assert told.count("no answer") == 1
    assert "answers again" not in told
    changes = len(plant.applied)
    plant.away = False
    running.run(200.0)
    back = [e for e in log.events if e["what"] == "answers again"]
    assert [e["after_s"] >= 40.0 for e in back] == [True]
    assert len(plant.applied) > changes
    assert len(plant.placed.stage("work").nodes) >= 3


def test_what_an_earlier_agent_began_is_settled_once_the_testbed_answers(make, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state.json")
    plant = make.plant(rate=lambda _: 150.0)

    def die(_plan: Plan) -> str | None:
        raise Killed

    plant.fail = die
    with pytest.raises(Killed):
        agent(plant, "gesscale", store=store).run(100.0)
    assert store.load().intent is not None
    plant.fail, plant.away = (lambda _: None), True
    log = MemoryLog()
    running = agent(plant, "gesscale", store=store, log=log)
    running.run(plant.clock + 20.0)
    assert [e["what"] for e in log.events] == ["agent started", "no answer", "agent stopped"]
    assert store.load().intent is not None, "nothing is known of it yet"
    plant.away = False
    running.run(plant.clock + 20.0)
    assert [e["found"] for e in log.events if e["what"] == "resumed"] == ["not begun"]


def test_what_happened_to_the_apps_processes_is_in_the_event_log(make) -> None:
    plant = make.plant()
    log = MemoryLog()
    running = agent(plant, "gesscale", log=log)
    plant.happened = [{"what": "lost", "service": "toy.work.executor.pi1", "reason": "Evicted: memory"}]
    running.run(10.0)
    told = [e for e in log.events if e["what"] == "lost"]
    assert [(e["app"], e["service"], e["reason"]) for e in told] == [
        ("toy", "toy.work.executor.pi1", "Evicted: memory")
    ]
