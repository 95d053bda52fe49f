"""The loop: collect, evaluate, decide, guard, act, and later compare what came of it with the prediction."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from fogctl.agent import effects, guards
from fogctl.agent.collect import collect, given
from fogctl.agent.evaluate import evaluate
from fogctl.agent.events import EventLog
from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.plan import to_json as plan_json
from fogctl.agent.policy import Policy
from fogctl.agent.presence import Presence
from fogctl.agent.recovery import Found, found_after_restart
from fogctl.agent.settings import AgentSettings
from fogctl.agent.state import AgentState, Intent, Learned
from fogctl.agent.store import Store
from fogctl.agent.target import Target
from fogctl.agent.wish import Note, wishes
from fogctl.errors import ChangeInterruptedError, FogError, NoAnswerError


@dataclass(frozen=True, slots=True)
class Decision:
    """One turn of the loop."""

    number: int
    seen: Observation
    asked: Plan
    """What the policy wanted."""
    plan: Plan
    """What the guard rails left of it."""
    notes: tuple[Note, ...]
    outcome: str
    """`kept` (nothing to do), `advised` (dry run), `intended` (about to be done), `applied` or `failed`."""
    error: str | None = None


class Agent:
    """A policy at work on one app. All time is the target's."""

    def __init__(
        self,
        target: Target,
        app: str,
        policy: Policy,
        settings: AgentSettings,
        store: Store,
        log: EventLog,
        *,
        dry_run: bool = False,
    ) -> None:
        self.target = target
        self.app = app
        self.policy = policy
        self.settings = settings
        self.store = store
        self.log = log
        self.dry_run = dry_run
        self.state = store.load() or AgentState()
        self._arrivals = getattr(policy, "wants_arrivals", True)
        self._facts = target.facts(app)
        self._presence = Presence()
        self._silent_since_s: float | None = None

    @property
    def known(self) -> Knowledge:
        """Everything a policy may use, the latencies as they are now."""
        return self.state.learned.added_to(given(self._facts, self.target, self.settings.guard))

    def run(
        self,
        until_s: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_decision: Callable[[Decision], None] = lambda _: None,
    ) -> None:
        """Decide again and again until that time, or until told to stop.

        While the testbed does not answer, nothing is decided; once it does, the loop goes on.
        """
        self._hello()
        settled = False
        while not stop() and (until_s is None or self.target.now_s() < until_s):
            began = self.target.now_s()
            try:
                if not settled:
                    self._settle()
                    settled = True
                decision = self.step()
            except NoAnswerError as error:
                self._no_answer(error)
            else:
                self._answered()
                on_decision(decision)
            pause = began + self.settings.every - self.target.now_s()
            if until_s is not None:
                pause = min(pause, until_s - self.target.now_s())
            if pause > 0 and not stop():
                self.target.sleep(pause)
        self._event("agent stopped", decisions=self.state.learned.decisions)

    def start(self) -> None:
        """Say what begins, and settle what an earlier agent left undone: nothing is done twice."""
        self._hello()
        self._settle()

    def _hello(self) -> None:
        samples = sum(len(stage.batches) for stage in self.known.stages.values())
        self._event(
            "agent started",
            policy=self.policy.name,
            dry_run=self.dry_run,
            every_s=self.settings.every,
            samples=samples,
            model="from earlier samples" if samples else "none yet: learned from the first batches seen",
        )

    def _settle(self) -> None:
        intent = self.state.intent
        if intent is None or self.dry_run:
            return
        found = found_after_restart(intent, self.target.deployment(self.app))
        error = None
        if found is Found.half_done:
            try:
                self.target.apply(self.app, intent.plan)
            except FogError as failure:
                error = str(failure)
        self._event("resumed", decision=intent.number, found=found.value, error=error)
        waiting = self.state.effects
        if found is not Found.not_begun:
            self._changed(intent.plan, replace(self._observed_nothing(), deployment=intent.before), error)
            waiting = waiting if error else effects.ended(intent.effects, intent.number, self.target.now_s())
        self._save(replace(self.state, intent=None, effects=waiting))

    def step(self) -> Decision:
        """One look, one decision, and what follows from it."""
        guard = self.settings.guard
        seen = collect(self.target, self.app, arrivals=self._arrivals)
        self._presence, met = self._presence.after(seen, (node.name for node in self._facts.edge))
        for event in (*met, *self._news(seen)):
            self._write(event)
        known = evaluate(seen, self.known, guard)
        after = effects.look(self.state.effects, seen, known, self.state.record, guard)
        for event in after.events:
            self._write(event)
        asked = self._ask(seen, after.known)
        guarded = guards.check(asked, seen, after.known, guard, after.record)
        known = replace(
            after.known,
            decisions=after.known.decisions + 1,
            memory={**after.known.memory, **asked.remember},
        )
        self.state = AgentState(Learned.of(known), guarded.record, after.waiting)
        decision = Decision(known.decisions, seen, asked, guarded.plan, guarded.notes, "kept")
        if guarded.plan.actions:
            decision = replace(decision, outcome="advised") if self.dry_run else self._act(decision, known)
        else:
            self._save(self.state)
            self._write(_as_event(decision))
        if decision.outcome == "advised":
            self._write(_as_event(decision))
        return decision

    def _news(self, seen: Observation) -> list[dict[str, Any]]:
        """What happened to the app's processes, as events."""
        try:
            return [{"at_s": seen.at_s, "app": self.app, **each} for each in self.target.news(self.app)]
        except FogError:  # told at the next look, if it matters still
            return []

    def _no_answer(self, error: NoAnswerError) -> None:
        if self._silent_since_s is None:
            self._silent_since_s = self.target.now_s()
            self._event("no answer", error=str(error))

    def _answered(self) -> None:
        if self._silent_since_s is not None:
            since, self._silent_since_s = self._silent_since_s, None
            self._event("answers again", after_s=round(self.target.now_s() - since, 1))

    def _ask(self, seen: Observation, known: Knowledge) -> Plan:
        """The policy's plan; one that fails changes nothing and is said, so that the loop goes on."""
        try:
            return self.policy.decide(seen, known)
        except Exception as error:
            self._event("policy failed", policy=self.policy.name, error=traceback.format_exc())
            return Plan.keep(f"policy {self.policy.name} failed: {type(error).__name__}: {error}")

    def _act(self, decision: Decision, known: Knowledge) -> Decision:
        """Intent first, then the change, then the outcome: whenever it is killed, the next one knows."""
        seen, plan = decision.seen, decision.plan
        cut = {note.stage for note in decision.notes}
        waiting = effects.waiting_for(self.state.effects, decision.number, plan, cut, seen, known)
        intent = Intent(decision.number, seen.at_s, plan, seen.deployment, waiting)
        self._save(replace(self.state, intent=intent))
        self._write(_as_event(replace(decision, outcome="intended")))
        error, interrupted = None, False
        try:
            self.target.apply(self.app, plan)
        except FogError as failure:
            error, interrupted = str(failure), isinstance(failure, ChangeInterruptedError)
        ended = self.target.now_s()
        self._event(
            "failed" if error else "applied",
            decision=decision.number,
            changes=plan.describe(),
            seconds=round(ended - seen.at_s, 3),
            **({"error": error} if error else {}),
        )
        self._changed(plan, seen, error)
        if error is not None:
            waiting = self.state.effects
        else:
            waiting = effects.ended(waiting, decision.number, ended)
            # One look at once: what piled up may be gone by the next.
            after = collect(self.target, self.app, arrivals=False)
            waiting = effects.look(waiting, after, known, self.state.record, self.settings.guard).waiting
        self._save(replace(self.state, intent=None, effects=waiting))
        if interrupted:  # the user's wish, not the change's failure: whoever runs this agent must hear of it
            raise KeyboardInterrupt
        return replace(decision, outcome="failed" if error else "applied", error=error)

    def _changed(self, plan: Plan, seen: Observation, error: str | None) -> None:
        """Remember of each stage that it was changed, or that changing it failed."""
        now = self.target.now_s()
        record, known = self.state.record, self.known
        for wish in wishes(plan, seen):
            before = record.of(wish.stage)
            if error is not None:
                record = record.having(wish.stage, failures=before.failures + 1, failed_at_s=now)
            else:
                scaled = now if wish.scale is not None else before.scaled_at_s
                shared = now if wish.shares else before.shared_at_s
                record = record.having(wish.stage, scaled_at_s=scaled, shared_at_s=shared, failures=0)
                if wish.scale is not None:
                    record = record.having(wish.stage, in_since_s=None, in_nodes=())
            stage = replace(known.stage(wish.stage), changed_at_s=now)
            stage = stage if wish.scale is None else replace(stage, scaled_at_s=now)
            stage = stage if not wish.added else replace(stage, grown_at_s=now)
            known = known.with_stage(wish.stage, stage)
        self.state = replace(self.state, learned=Learned.of(known), record=record)

    def _observed_nothing(self) -> Observation:
        return Observation(self.target.now_s(), self.app, (), (), self.target.deployment(self.app))

    def _save(self, state: AgentState) -> None:
        self.state = state
        if not self.dry_run:
            self.store.save(state)

    def _event(self, what: str, **facts: Any) -> None:
        self._write({"at_s": self.target.now_s(), "what": what, "app": self.app, **facts})

    def _write(self, event: dict[str, Any]) -> None:
        self.log.write(event)


def _as_event(decision: Decision) -> dict[str, Any]:
    """A decision as a line of the event log."""
    asked = plan_json(decision.asked)
    return {
        "at_s": decision.seen.at_s,
        "what": "decision",
        "app": decision.seen.app,
        "decision": decision.number,
        "outcome": decision.outcome,
        "changes": decision.plan.describe(),
        "actions": plan_json(decision.plan)["actions"],
        "asked": asked["actions"],
        "reason": decision.asked.reason,
        "numbers": asked["numbers"],
        "predicted": asked["predicted"],
        "guards": [asdict(note) for note in decision.notes],
    }
