"""Several apps deployed by one plan, on a ground that only keeps records: order, undoing, dry runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fognetem.matrix import LatencyMatrix

sys.path.append(str(Path(__file__).parent))
from paper_ground import PaperGround

from fogctl.errors import REFUSED, FogError
from fogctl.placement.bed import Bed, Wish, nodes_by_app, placed
from fogctl.placement.kept import keep, kept
from fogctl.placement.plan import Strategy
from fogctl.placement.profile import Profile, StageProfile
from fogctl.placement.together import Together
from fogctl.runtime import app as app_files
from fogctl.runtime import operate
from fogctl.runtime.app_options import with_options
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Kind, Node, Role, Testbed

TAXI, UC2 = app_files.load("taxi"), app_files.load("uc2")
NAMES = ("pi1", "pi2", "pi3", "pi4")


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperGround:
    monkeypatch.setattr(operate.kafka, "ensure_topics", lambda *_: [])
    monkeypatch.setattr(operate.kafka, "delete_topics", lambda *_: None)
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        *(Node(name, Role.edge, "field", "rpi4-2g", 0.4, 2 << 30) for name in NAMES),
    )
    latencies = LatencyMatrix(tuple(node.name for node in nodes))
    return PaperGround(tmp_path, Testbed("paper", Kind.virtual, nodes, latencies))


def together(ground: PaperGround, share: float | None = None, **nodes: Sequence[str]) -> Together:
    stages = {"taxi": "nearest", "uc2": "downsample"}
    where: Mapping[str, Mapping[str, Sequence[str]]] = {
        app: {stages[app]: list(names)} for app, names in nodes.items()
    }
    apps = [app for app in (TAXI, UC2) if app.name in where]
    return Together(Apps(ground), apps, where, share)  # type: ignore[arg-type]


def where(ground: PaperGround) -> dict[str, tuple[str, ...]]:
    return {each.app: each.stages[0].nodes for each in Apps(ground).deployments()}  # type: ignore[arg-type]


def quiet(_: str) -> None:
    return


def test_apps_are_deployed_and_the_one_that_must_wait_goes_second(ground: PaperGround) -> None:
    together(ground, taxi=["pi1"], uc2=["pi2"]).deploy(quiet)
    assert where(ground) == {"taxi": ("pi1",), "uc2": ("pi2",)}
    steps = together(ground, taxi=["pi2"], uc2=["pi3"]).deploy(quiet)
    assert list(steps) == ["uc2", "taxi"]
    assert where(ground) == {"taxi": ("pi2",), "uc2": ("pi3",)}


def test_a_dry_run_says_the_same_and_changes_nothing(ground: PaperGround) -> None:
    together(ground, 0.5, taxi=["pi1"], uc2=["pi1"]).deploy(quiet)
    before = list(ground.made)
    move = together(ground, taxi=["pi1", "pi4"], uc2=["pi3"])
    planned = move.changes()
    assert ground.made == before
    # Replicas that stay keep the half that they have.
    assert [step.describe() for step in planned["taxi"]] == ["add a replica of nearest on pi4 at 100%"]
    assert move.deploy(quiet) == planned


def test_if_one_fails_those_before_it_go_back_to_where_they_were(ground: PaperGround) -> None:
    together(ground, taxi=["pi1"]).deploy(quiet)
    ground.refuses = "uc2"
    with pytest.raises(FogError, match="it does not start"):
        together(ground, taxi=["pi2", "pi3"], uc2=["pi4"]).deploy(quiet)
    assert where(ground) == {"taxi": ("pi1",)}
    ground.refuses = None
    Apps(ground).remove("taxi")  # type: ignore[arg-type]
    ground.refuses = "uc2"
    with pytest.raises(FogError):
        together(ground, taxi=["pi2"], uc2=["pi4"]).deploy(quiet)
    assert where(ground) == {}


def test_an_app_that_goes_back_can_still_be_read_when_its_options_changed(ground: PaperGround) -> None:
    together(ground, taxi=["pi1"]).deploy(quiet)
    ground.refuses = "uc2"
    changed = with_options(TAXI, ["nearest.work=77"])
    nodes = {"taxi": {"nearest": ["pi2"]}, "uc2": {"downsample": ["pi4"]}}
    with pytest.raises(FogError):
        Together(Apps(ground), [changed, UC2], nodes).deploy(quiet)  # type: ignore[arg-type]
    assert where(ground) == {"taxi": ("pi1",)}
    assert Apps(ground).app("taxi").name == "taxi"  # type: ignore[arg-type]


def test_apps_that_would_have_to_swap_nodes_are_refused_before_anything_is_touched(
    ground: PaperGround,
) -> None:
    together(ground, taxi=["pi1"], uc2=["pi2"]).deploy(quiet)
    before = list(ground.made)
    with pytest.raises(FogError, match="would each have to go first") as error:
        together(ground, taxi=["pi2"], uc2=["pi1"]).deploy(quiet)
    assert error.value.exit_code == REFUSED
    assert ground.made == before


def test_what_the_plan_says_of_apps_that_run_is_what_is_deployed(ground: PaperGround) -> None:
    apps = Apps(ground)  # type: ignore[arg-type]
    wish = Wish(Strategy.spread, {"taxi.nearest": 2}, slots=2)
    planned = placed([TAXI, UC2], Bed.running(apps), wish)
    Together(apps, [TAXI, UC2], nodes_by_app([TAXI, UC2], planned), wish.share).deploy(quiet)
    assert where(ground) == {"taxi": ("pi1", "pi2"), "uc2": ("pi3",)}
    assert {replica.share for each in apps.deployments() for replica in each.stages[0].replicas} == {0.5}
    # Placed again with the app's own nodes free for it, nothing has to change.
    again = placed([TAXI, UC2], Bed.running(apps), wish)
    assert again.nodes == planned.nodes


def test_a_profile_is_kept_with_its_app_and_a_broken_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "apps" / "taxi").mkdir(parents=True)
    assert kept(tmp_path, "taxi") is None
    stage = StageProfile(
        stage="nearest", records=1, records_per_s=1, records_per_s_per_replica=1, cpu_s_per_record=0.1
    )
    made = Profile(app="taxi", measured_at="2026-05-01T12:00:00+00:00", window_s=1, stages=[stage])
    keep(tmp_path, made)
    assert kept(tmp_path, "taxi") == made
    (tmp_path / "apps" / "taxi" / "profile.json").write_text("{}")
    assert kept(tmp_path, "taxi") is None
