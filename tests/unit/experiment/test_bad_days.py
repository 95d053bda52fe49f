"""Bad days of a run: it goes on or stops with one clear sentence, and keeps what it has."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fogmodels.throughput import Sample
from kafka.errors import KafkaTimeoutError

from fogctl.agent.arrivals import TopicArrivals
from fogctl.agent.state import AgentState, Learned
from fogctl.agent.store import FileStore
from fogctl.errors import FogError
from fogctl.experiment import agent_store, metrics, recorder, runner
from fogctl.experiment import experiment as experiments
from fogctl.experiment.experiment import Experiment
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.sim_plant import SimPlant
from fogctl.report import page
from fogctl.trace import MakeOptions, make, write

TEXT = """\
name: bad
testbed: {use: gesscale, kind: sim, nodes: 4}
app: {use: taxi, work: 60000, start: {nearest: [pi1]}}
trace:
  make: {days: 0.1, rides_per_day: 80000, start: "2013-05-01T07:00:00"}
  speed: 96
policies: [gesscale-spark]
guard: {window: 10s, stale_after: 30s, stabilise: 5s, scale_in_delay: 0s, cool_off: 10s}
every: 2s
"""


class Silent:
    """Tells nobody."""

    def say(self, line: str) -> None:
        """Nothing."""

    def part(self, *_: object) -> None:
        """Nothing."""

    def at(self, seconds: float) -> None:
        """Nothing."""


def loaded(tmp_path: Path, text: str = TEXT) -> Experiment:
    (tmp_path / "experiment.yaml").write_text(text)
    return experiments.load(tmp_path / "experiment.yaml")


def ran(experiment: Experiment, path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    folder = RunFolder(path)
    with folder.held():
        manifest = runner.run(experiment, SimPlant(experiment), folder, Silent())
    return manifest, folder.events()


def test_a_node_lost_while_it_is_being_added_fails_that_change_and_the_run_goes_on(tmp_path: Path) -> None:
    _, events = ran(loaded(tmp_path), tmp_path / "whole")
    first = next(e for e in events if e["what"] == "decision" and e.get("direction") == "out")
    added = next(n for n in first["actions"][0]["nodes"] if n != "pi1")
    [part] = (e for e in json.loads((tmp_path / "whole" / "manifest.json").read_text())["parts"])
    # Half-way between the decision and the replica that it asks for.
    at = 100.0 * (first["at_s"] + 5.0) / part["trace_s"]
    broken = TEXT + f"faults: [{{at: {at:.3f}%, kill: {added}, lasts: 30s}}]\n"
    manifest, events = ran(loaded(tmp_path, broken), tmp_path / "broken")
    [failed, *_] = [e for e in events if e["what"] == "failed"]
    assert failed["decision"] == first["decision"]
    assert "was lost meanwhile" in failed["error"]
    later = [e for e in events if e["what"] == "applied" and e["at_s"] > failed["at_s"]]
    assert later, "nothing was tried again"
    assert manifest["parts"][0]["audit"]["lost"] == 0


@pytest.mark.parametrize("policy", ["gesscale", "gesscale-spark", "hybrid", "ds2"])
def test_models_fitted_on_garbage_do_limited_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    rng = np.random.default_rng(1)
    garbage = tuple(
        Sample(int(rng.integers(1, 5)), float(rng.uniform(0, 300)), float(10 ** rng.uniform(-2, 5)),
               float(10 ** rng.uniform(0, 5)), 2, share=float(rng.uniform(0.1, 1)))
        for _ in range(30)
    )  # fmt: skip
    stage = {"saturated": garbage, "batches": garbage, "stalls_s": {"out": (1e4,), "in": (0.0,)}}
    given = agent_store.of_part
    begin = AgentState(Learned({"nearest": stage}))
    monkeypatch.setattr(agent_store, "of_part", lambda e, f, p, _: given(e, f, p, begin))
    manifest, events = ran(loaded(tmp_path, TEXT.replace("gesscale-spark", policy)), tmp_path / "run")
    [part] = manifest["parts"]
    assert part["finished_s"] is not None, "the load was not served"
    assert part["finished_s"] < 2 * part["trace_s"]
    assert not [e for e in events if e["what"] == "policy failed"]


def test_a_trace_out_of_order_is_sorted_and_the_run_is_the_same(tmp_path: Path) -> None:
    rides = make(MakeOptions(3, 0.05, 40_000.0, "2013-05-01T07:00:00"))
    lines = (tmp_path / "sorted.csv", tmp_path / "shuffled.csv")
    write(rides, lines[0])
    head, *rows = lines[0].read_text().splitlines()
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    lines[1].write_text("\n".join([head, *shuffled]) + "\n")
    old = TEXT.split("  make:")[1].split("\n")[0]
    found = []
    for file in lines:
        text = TEXT.replace(f"  make:{old}", f"  file: {file.name}")
        experiment = loaded(tmp_path, text)
        found.append(experiment.load(experiment.parts[0].seed))
    assert np.array_equal(found[0].due_s, found[1].due_s)
    assert (np.diff(found[1].due_s) >= 0).all()
    assert found[0].notes == ()
    assert re.fullmatch(
        r"trace shuffled.csv: [\d,]+ rides stood out of order and were sorted in", *found[1].notes
    )


def test_a_trace_cut_short_in_the_middle_of_a_line_is_used_up_to_there(tmp_path: Path) -> None:
    write(make(MakeOptions(3, 0.05, 40_000.0, "2013-05-01T07:00:00")), tmp_path / "rides.csv")
    whole = (tmp_path / "rides.csv").read_text()
    (tmp_path / "rides.csv").write_text(whole[: len(whole) // 2])
    old = TEXT.split("  make:")[1].split("\n")[0]
    experiment = loaded(tmp_path, TEXT.replace(f"  make:{old}", "  file: rides.csv"))
    load = experiment.load(experiment.parts[0].seed)
    assert load.records == pytest.approx(whole.count("\n") / 2, rel=0.1)
    manifest, _ = ran(replace(experiment, policies=experiment.policies[:1]), tmp_path / "run")
    assert manifest["parts"][0]["audit"]["lost"] == 0
    [said] = page.write(RunFolder(tmp_path / "run")).scores["warnings"]
    assert re.fullmatch(r"trace rides.csv: 1 of [\d,]+ rows were left out \(unreadable line: 1\)", said)


class Watched(SimPlant):
    """A plant that remembers whether it was taken down."""

    went_down = False

    def down(self, say: Any) -> None:
        self.went_down = True
        super().down(say)


@pytest.mark.parametrize("file", ["metrics", "events", "agent's state"])
def test_a_full_disk_wherever_it_shows_ends_the_run_in_one_sentence_and_everything_is_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    experiment = loaded(tmp_path)
    folder, plant = RunFolder(tmp_path / "run"), Watched(experiment)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.path))
    calls = 0

    def fails_later(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise full

    if file == "metrics":
        monkeypatch.setattr(metrics.RowWriter, "write", fails_later)
    elif file == "events":
        monkeypatch.setattr(recorder, "append", fails_later)
    else:
        store = FileStore(tmp_path / "agent.json")
        monkeypatch.setattr(os, "fsync", fails_later)
        monkeypatch.setattr(agent_store, "of_part", lambda *_: store)
    with pytest.raises(FogError, match="No space left on device") as stopped, folder.held():
        runner.run(experiment, plant, folder, Silent())
    assert stopped.value.exit_code == 1
    assert plant.went_down
    assert folder.manifest()["state"] in ("failed", "running"), "what was written before stays readable"


def test_an_agent_whose_broker_is_dead_knows_no_arrivals_and_goes_on() -> None:
    @contextlib.contextmanager
    def nobody() -> Iterator[Any]:
        raise KafkaTimeoutError
        yield

    assert TopicArrivals(nobody).of({"nearest": ["taxi.rides"]}) == {}
