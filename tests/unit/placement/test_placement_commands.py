"""`fogctl app deploy --place` and `app profile`: dry runs on a testbed that is not up, and bad input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fognetem.matrix import LatencyMatrix
from fognetem.matrix import Path as NetworkPath
from typer.testing import CliRunner, Result

from fogctl.cli.app import app
from fogctl.errors import BAD_INPUT, REFUSED, FogError
from fogctl.placement.bed import Bed, Wish, placed
from fogctl.placement.demand import profiled
from fogctl.placement.plan import Strategy
from fogctl.placement.profile import Profile, StageProfile
from fogctl.placement.room import rooms
from fogctl.placement.together import in_order
from fogctl.runtime import app as apps
from fogctl.runtime.deployment import BESIDE_HEAP_BYTES, Deployment, Replica, StagePlacement
from fogctl.testbed.model import Kind, Node, Role, Testbed

TESTBED = """
name: city
kind: sim
nodes:
  - {name: cloud, role: control, site: dc, board: host}
  - {name: "near[1-3]", role: edge, site: street, board: rpi4-2g}
  - {name: "far[1-2]", role: edge, site: field, board: rpi4-2g}
latency:
  sites: [{between: [dc, street], rtt: 5ms}, {between: [dc, field], rtt: 80ms}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "testbed.yaml").write_text(TESTBED)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> FogError:
    error = run(*arguments).exception
    assert isinstance(error, FogError), error
    assert "\n" not in str(error)
    return error


def answer(*arguments: str) -> Any:
    result = run("deploy", "taxi3", *arguments, "--dry-run", "-o", "json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def profile_file(folder: Path, app: str = "taxi3", **cpu_s: float) -> str:
    """What records cost; a hundred a second are sent."""
    stages = [
        StageProfile(
            stage=name,
            records=1000,
            records_per_s=100,
            records_per_s_per_replica=100,
            cpu_s_per_record=cost,
            output_records_per_record=1,
            output_bytes_per_record=50,
        )
        for name, cost in cpu_s.items()
    ]
    made = Profile(app=app, measured_at="2026-05-01T12:00:00+00:00", window_s=10, stages=stages)
    file = folder / ("profile.json" if app == "taxi3" else f"{app}.json")
    file.write_text(made.model_dump_json())
    return str(file)


def test_a_dry_run_places_on_a_testbed_that_is_not_up_and_changes_nothing(folder: Path) -> None:
    found = answer("--place", "auto")
    assert found["dry_run"] is True
    assert sorted(node for nodes in found["nodes"].values() for node in nodes) == ["near1", "near2", "near3"]
    assert len(found["changes"]) == 6
    assert found["cost"].keys() == {"cpu", "io", "net", "latency"}
    assert not (folder / "state").exists()


def test_the_dry_run_says_what_decided_and_that_there_is_no_profile(folder: Path) -> None:
    said = run("deploy", "taxi3", "--place", "auto", "--dry-run").stdout
    for words in (
        "decided",
        "proven best",
        "no profile",
        "add a replica of parse on near",
        "near1",
        "latency",
    ):
        assert words in said
    costs = profile_file(folder, parse=0.001, measure=0.009, choose=0.001)
    said = run("deploy", "taxi3", "--place", "spread", "--profile", costs, "--dry-run").stdout
    assert "spread: each replica on the emptiest node" in said
    assert "no profile" not in said


def test_real_nodes_are_as_large_as_their_boards(folder: Path) -> None:
    fast = "  - {name: fast, role: edge, site: street, board: rpi5-8g}\n"
    text = TESTBED.replace("kind: sim", "kind: k3s").replace("latency:", f"{fast}latency:")
    (folder / "testbed.yaml").write_text(text)
    heavy = profile_file(folder, parse=0.001, measure=0.05, choose=0.001)
    assert answer("--place", "auto", "--profile", heavy)["nodes"]["measure"] == ["fast"]
    assert "no room" not in run("deploy", "taxi3", "--place", "auto", "--dry-run").stdout


def test_replicas_are_as_asked_and_one_where_nothing_is_asked() -> None:
    found = answer("--place", "pack", "--replicas", "measure=3")
    assert found["nodes"] == {"parse": ["near1"], "measure": ["near2", "near3", "far1"], "choose": ["far2"]}


def test_with_slots_stages_share_a_node_and_each_has_its_part() -> None:
    found = answer("--place", "pack", "--slots", "2")
    assert found["nodes"] == {"parse": ["near1"], "measure": ["near1"], "choose": ["near2"]}
    assert "add a replica of measure on near1 at 50%" in found["changes"]


def test_the_same_seed_is_the_same_random_placement() -> None:
    once, again = (answer("--place", "random", "--seed", "7") for _ in range(2))
    assert once["nodes"] == again["nodes"]
    assert any(answer("--place", "random", "--seed", str(n))["nodes"] != once["nodes"] for n in range(5))


BAD = {
    (): "no nodes",
    ("--on", "near1", "--place", "auto"): "give one of them",
    ("--place", "best"): "there is no strategy best",
    ("--on", "near1", "--seed", "3"): "--seed: is for --place",
    ("--on", "near1", "--slots", "2"): "--slots: is for --place",
    ("--on", "near1", "--replicas", "parse=2"): "--replicas: is for --place",
    ("--place", "auto", "--seed", "3"): "leaves nothing to chance",
    ("--place", "auto", "--replicas", "prse=2"): "no stage prse",
    ("--place", "auto", "--replicas", "parse=0"): "parse=0 is not STAGE=REPLICAS",
    ("--place", "auto", "--replicas", "parse"): "parse is not STAGE=REPLICAS",
    ("--place", "auto", "--replicas", "parse=1,parse=2"): "parse is named twice",
    ("--place", "auto", "--profile", "nowhere.json"): "nowhere.json: no such file",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_options_that_do_not_fit_are_refused_in_one_sentence(arguments: tuple[str, ...]) -> None:
    error = refused("deploy", "taxi3", *arguments, "--dry-run")
    assert BAD[arguments] in str(error)
    assert error.exit_code == BAD_INPUT


def test_too_many_replicas_are_refused_with_exit_3() -> None:
    error = refused("deploy", "taxi3", "--place", "auto", "--replicas", "measure=4", "--dry-run")
    assert error.exit_code == REFUSED
    assert "6 replicas do not fit" in str(error)


def test_a_profile_must_be_of_the_app_and_have_its_stages(folder: Path) -> None:
    lacking = profile_file(folder, parse=0.001, choose=0.001)
    error = refused("deploy", "taxi3", "--place", "auto", "--profile", lacking, "--dry-run")
    assert "profile.json: stages: the profile has no stage measure" in str(error)
    error = refused("deploy", "taxi", "--place", "auto", "--profile", lacking, "--dry-run")
    assert "of the app taxi3, not of taxi" in str(error)


@pytest.mark.parametrize(("text", "words"), [("5", "unit"), ("0s", "from 1 s"), ("2h", "to 300 s")])
def test_the_time_to_profile_is_checked_before_anything(text: str, words: str) -> None:
    error = refused("profile", "taxi3", "--for", text)
    assert words in str(error)
    assert error.exit_code == BAD_INPUT


def test_a_profile_is_not_measured_if_it_could_not_be_saved() -> None:
    assert "the folder for it does not exist" in str(refused("profile", "taxi3", "--to", "no/where.json"))


# Around other apps

MIB = 1 << 20


def bed(*deployments: Deployment) -> Bed:
    edges = ("pi1", "pi2", "pi3", "pi4")
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        *(Node(name, Role.edge, "field", "rpi4-2g", 0.4, 1000 * MIB) for name in edges),
    )
    paths = [("cloud", name, NetworkPath(rtt_ms=10.0 * place)) for place, name in enumerate(edges, 1)]
    latencies = LatencyMatrix(tuple(node.name for node in nodes), tuple(paths))
    return Bed(
        Testbed("bed", Kind.virtual, nodes, latencies), latencies, deployments, {("other", "only"): 300 * MIB}
    )


def other(*replicas: Replica) -> Deployment:
    return Deployment("other", "app.yaml", (StagePlacement("only", 0, replicas),))


def test_nodes_that_another_app_has_are_left_to_it() -> None:
    wish = Wish(Strategy.auto, {})
    alone = placed([apps.load("taxi")], bed(), wish)
    assert alone.nodes == {"nearest": ("pi1",)}
    around = placed([apps.load("taxi")], bed(other(Replica("pi1"), Replica("pi2", 0.5))), wish)
    assert around.nodes == {"nearest": ("pi3",)}
    assert around.left_out == ("pi1", "pi2")


def test_what_an_app_has_itself_is_free_for_it_and_tells_how_many_replicas_it_keeps() -> None:
    own = Deployment("taxi", "app.yaml", (StagePlacement("nearest", 0, (Replica("pi1"), Replica("pi4"))),))
    assert placed([apps.load("taxi")], bed(own), Wish(Strategy.pack, {})).nodes == {"nearest": ("pi1", "pi2")}


def test_room_is_what_shares_and_memory_leave() -> None:
    one = bed(other(Replica("pi1", 0.5)))
    found = rooms(one.testbed, one.latencies, one.deployments, one.heaps, slots_per_node=4)
    assert [room.slots for room in found] == [2, 4, 4, 4]
    assert [room.cpu_cores for room in found] == pytest.approx([0.2, 0.4, 0.4, 0.4])
    assert found[0].memory_bytes == 700 * MIB - BESIDE_HEAP_BYTES
    assert [room.rtt_ms for room in found] == [10, 20, 30, 40]
    assert [room.slots for room in rooms(one.testbed, one.latencies, one.deployments)] == [0, 1, 1, 1]


def test_a_stage_that_fell_behind_counts_at_the_rate_that_comes_in(folder: Path) -> None:
    profile_file(folder, parse=0.001, measure=0.009, choose=0.002)
    made = Profile.model_validate_json((folder / "profile.json").read_text())
    halves = {"parse": {"output_records_per_record": 0.5}, "measure": {"records_per_s": 10.0}}
    stages = [stage.model_copy(update=halves.get(stage.stage, {})) for stage in made.stages]
    demands = profiled(
        apps.load("taxi3"),
        dict.fromkeys(("parse", "measure", "choose"), 1),
        made.model_copy(update={"stages": stages}),
    )
    # 100 a second into parse, half of them handed on, though measure took 10 only.
    assert [each.cpu_cores for each in demands] == pytest.approx([0.1, 0.009 * 50, 0.002 * 50])


def test_a_node_that_is_down_has_no_room_and_a_slowed_one_less_cpu() -> None:
    one = bed()
    found = rooms(one.testbed, one.latencies, cpu_left={"pi1": 0.0, "pi2": 0.25})
    assert [room.slots for room in found] == [0, 1, 1, 1]
    assert [room.cpu_cores for room in found] == pytest.approx([0.0, 0.1, 0.4, 0.4])


def test_demands_are_what_was_measured_at_the_rate_it_was_measured_at(folder: Path) -> None:
    profile_file(folder, parse=0.001, measure=0.009, choose=0.002)
    made = Profile.model_validate_json((folder / "profile.json").read_text())
    demands = profiled(apps.load("taxi3"), {"parse": 1, "measure": 2, "choose": 1}, made)
    assert [each.cpu_cores for each in demands] == pytest.approx([0.1, 0.9, 0.2])
    assert [each.output_bytes_per_s for each in demands] == pytest.approx([5000] * 3)
    assert [each.readers for each in demands] == [("measure",), ("choose",), ()]


# Several apps in one plan


def together(*arguments: str) -> Any:
    result = run("deploy", "taxi3", "taxi", *arguments, "--dry-run", "-o", "json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_apps_placed_together_get_nodes_of_their_own_in_one_plan() -> None:
    found = together("--place", "auto", "--replicas", "taxi3.measure=2")
    assert found["nodes"].keys() == {"taxi3.parse", "taxi3.measure", "taxi3.choose", "taxi.nearest"}
    used = [node for nodes in found["nodes"].values() for node in nodes]
    assert len(used) == len(set(used)) == 5
    assert "taxi: start stage nearest" in found["changes"]
    assert len(found["changes"]) == 4 + 5


def test_the_heavy_stage_of_whichever_app_gets_the_fast_node(folder: Path) -> None:
    # One after the other, the app that comes first would have it.
    fast = "{name: fast, role: edge, site: street, board: rpi5-8g}"
    (folder / "testbed.yaml").write_text(
        TESTBED.replace("latency:", f"  - {fast}\nlatency:").replace("near[1-3]", "near[1-4]")
    )
    for heavy, costs in (("taxi.nearest", (0.001, 0.05)), ("taxi3.measure", (0.05, 0.001))):
        taxi3 = profile_file(folder, parse=0.001, measure=costs[0], choose=0.001)
        taxi = profile_file(folder, "taxi", nearest=costs[1])
        found = together("--place", "auto", "--profile", taxi3, "--profile", taxi)["nodes"]
        assert [stage for stage, nodes in found.items() if "fast" in nodes] == [heavy]


def test_with_slots_stages_of_different_apps_share_a_node() -> None:
    found = together("--place", "pack", "--slots", "2")
    assert found["nodes"]["taxi3.choose"] == found["nodes"]["taxi.nearest"] == ["near2"]


def test_options_of_several_apps_name_the_app() -> None:
    assert together("--place", "auto", "--set", "taxi.nearest.work=5", "--set", "taxi3.parse.work=7")


BAD_TOGETHER = {
    ("--on", "near1"): "--on is for one app",
    ("--place", "auto", "--replicas", "measure=2"): "no stage measure",
    ("--place", "auto", "--set", "nearest.work=5"): "which of the apps",
    ("--place", "auto", "--set", "uc1.nearest.work=5"): "which of the apps",
    ("--place", "auto", "--set", "taxi.nearst.work=5"): "no stage",
}


@pytest.mark.parametrize("arguments", BAD_TOGETHER, ids=" ".join)
def test_what_is_not_clear_of_several_apps_is_refused_in_one_sentence(arguments: tuple[str, ...]) -> None:
    error = refused("deploy", "taxi3", "taxi", *arguments, "--dry-run")
    assert BAD_TOGETHER[arguments] in str(error)
    assert error.exit_code == BAD_INPUT


def test_profiles_are_of_each_app_or_of_none(folder: Path) -> None:
    one = profile_file(folder, parse=0.001, measure=0.001, choose=0.001)
    error = refused("deploy", "taxi3", "taxi", "--place", "auto", "--profile", one, "--dry-run")
    assert "a profile of taxi3 and none of taxi" in str(error)
    error = refused("deploy", "taxi", "uc2", "--place", "auto", "--profile", one, "--dry-run")
    assert "of the app taxi3, not of taxi or uc2" in str(error)
    error = refused("deploy", "taxi3", "--place", "auto", "--profile", one, "--profile", one, "--dry-run")
    assert "second profile of taxi3" in str(error)
    assert "taxi is named twice" in str(refused("deploy", "taxi", "taxi", "--place", "auto", "--dry-run"))


def on_nodes(app: str, *nodes: str) -> Deployment:
    return Deployment(app, "app.yaml", (StagePlacement("only", 0, tuple(Replica(node) for node in nodes)),))


def one_each(deployments: Sequence[Deployment]) -> bool:
    """Whether no node is used twice."""
    used = [node for each in deployments for node in each.stages[0].nodes]
    return len(used) == len(set(used))


def test_an_app_whose_nodes_another_still_has_is_moved_after_it() -> None:
    a, b, c = on_nodes("a", "pi2"), on_nodes("b", "pi3"), on_nodes("c", "pi1")
    there = [on_nodes("a", "pi1"), on_nodes("b", "pi2")]
    assert [each.app for each in in_order([a, c, b], there, one_each)] == ["b", "a", "c"]


def test_apps_that_wait_for_each_other_are_refused() -> None:
    there = [on_nodes("a", "pi1"), on_nodes("b", "pi2")]
    with pytest.raises(FogError, match="a, b would each have to go first") as error:
        in_order([on_nodes("a", "pi2"), on_nodes("b", "pi1")], there, one_each)
    assert error.value.exit_code == REFUSED
