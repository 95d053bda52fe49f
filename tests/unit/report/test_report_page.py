"""The page of a run: complete by itself, the numbers those of scores.json, usable by everybody."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from fogctl.report import drawing, page, paper, words
from fogctl.report.columns import COLUMNS, RESPONSE_COLUMNS, change

sys.path.append(str(Path(__file__).parents[1] / "experiment"))
import browser
import recorded_run as story

needs_chromium = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium: make test-tools")
PROBE = """<script>
const mark = document.querySelector(".mark");
mark.dispatchEvent(new MouseEvent("mousemove", {clientX: 50, clientY: 50, bubbles: true}));
document.documentElement.setAttribute("data-mark", document.getElementById("tip").textContent);
const svg = document.querySelector("figure:has(script.probe) svg"), box = svg.getBoundingClientRect();
const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 4};
svg.dispatchEvent(new MouseEvent("mousemove", at));
document.documentElement.setAttribute("data-values", document.getElementById("tip").textContent);
</script>"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, page.Story]:
    policies = {"thr-nlunaware": 20, "gesscale": 3, "</script><b>odd": 1}
    folder = story.recorded(tmp_path_factory.mktemp("report") / "run", policies, repetitions=2)
    return folder, page.write(folder)


@needs_chromium
def test_the_page_has_no_console_errors_and_its_numbers_are_those_of_scores_json(
    told: tuple[Any, page.Story], tmp_path: Path
) -> None:
    folder, _ = told
    copy = tmp_path / "page.html"
    copy.write_text(folder.report_file.read_text().replace("</body>", PROBE + "</body>"))
    seen = browser.visit(copy.as_uri(), tmp_path / "profile")
    assert seen.console == []
    assert browser.attribute(seen.dom, "data-ready") == "yes"
    scores = folder.scores()
    cells = browser.Cells(seen.dom).found
    styles = {column.key: column for column in (*COLUMNS, *RESPONSE_COLUMNS)}
    shown = 0
    for key, (value, text) in cells.items():
        kind, index, name = key.split(".")
        expected = scores[kind][int(index)][name]
        assert text == styles[name].text(expected), key
        assert value == (None if expected is None else json.dumps(expected)), key
        shown += expected is not None
    assert shown >= 3 * len(COLUMNS)
    # Pointing at a decision tells why; pointing at a curve tells the values there.
    assert "records/s need" in str(browser.attribute(seen.dom, "data-mark"))
    assert re.search(r"input [\d.]+/s", str(browser.attribute(seen.dom, "data-values")))


def test_the_page_loads_nothing_from_anywhere(told: tuple[Any, page.Story]) -> None:
    text = told[0].report_file.read_text()
    rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.search(r"https?://|//cdn|@import|<link|<img|src=", rest)
    assert len(text) < 900_000


def test_what_users_wrote_cannot_become_markup(told: tuple[Any, page.Story]) -> None:
    text = told[0].report_file.read_text()
    assert "<b>odd" not in text
    assert "need 3 <replicas>" not in text
    assert "need 3 &lt;replicas&gt;" in text


def test_every_figure_can_be_read_without_seeing_it(told: tuple[Any, page.Story]) -> None:
    for figure in told[1].figures:
        root = ElementTree.fromstring(figure.svg())
        title, desc = root[0], root[1]
        assert title.tag.endswith("title")
        assert title.text
        assert desc.tag.endswith("desc")
        assert len(desc.text or "") > 20
        assert root.get("role") == "img"
    text = told[0].report_file.read_text()
    assert text.count("the figure as a table") == len(told[1].drawings)


def test_curves_differ_by_dashes_and_not_by_colour_alone() -> None:
    assert len({str(dashes) for _, dashes in drawing.CYCLE}) == len(drawing.CYCLE)
    assert len({colour for colour, _ in drawing.CYCLE}) == len(drawing.CYCLE)


def test_figures_are_written_as_svg_and_png(told: tuple[Any, page.Story], tmp_path: Path) -> None:
    made = told[1].drawings[0].save(tmp_path / "figures")
    ElementTree.parse(made[0])
    assert made[1].read_bytes().startswith(b"\x89PNG")


def test_the_papers_rows_stand_under_ours(told: tuple[Any, page.Story]) -> None:
    text = told[0].report_file.read_text()
    for published in (paper.GESSCALE["thr-nlunaware"], paper.GESSCALE["gesscale"]):
        assert f"<td>{published.accuracy_o:.3f}</td>" in text
        assert f"<td>{published.excess_time:.3f}</td>" in text
    # 17 % fewer resources and 52 % fewer reconfigurations, as the paper's abstract says.
    base, best = paper.GESSCALE["thr-nlunaware"], paper.GESSCALE["gesscale"]
    assert change(best.node_minutes, base.node_minutes) == "−17 %"
    assert change(best.reconfigurations, base.reconfigurations) == "−52 %"


def test_a_run_without_any_finished_part_still_has_a_page(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    manifest = folder.manifest()
    for part in manifest["parts"]:
        part["state"] = "failed"
    folder.save_manifest({**manifest, "network": None})
    page.write(folder)
    assert "No policy was run to its end." in folder.report_file.read_text()


def test_a_cheap_policy_that_never_finished_is_not_called_the_best(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    manifest = folder.manifest()
    manifest["parts"][0]["finished_s"] = None
    manifest["parts"][0]["audit"]["lost"] = 400
    folder.save_manifest(manifest)
    scores = page.write(folder).scores
    assert scores["policies"][0]["waiting"] == 400
    said = " ".join(words.conclusion(scores))
    assert "Not finished within the time to drain: slow" in said
    row = re.search(r"<th scope=row>slow</th>.*?</tr>", folder.report_file.read_text())
    assert row is not None
    assert "class=best" not in row[0]


def test_without_an_ideal_curve_the_conclusion_still_has_its_third_line(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    folder.save_manifest({**folder.manifest(), "mst": {}, "mst_shares": {}})
    policies = [{**policy, "goal_met": None} for policy in page.write(folder).scores["policies"]]
    least = min(policies, key=lambda policy: policy["mean_lag"])
    said = words.conclusion({"policies": policies})
    assert len(said) == 3
    assert said[2].startswith(f"{least['policy']} let the fewest records wait")
    assert "too few node sets" in said[2]


def test_thinning_keeps_the_mean_and_steps_keep_every_change() -> None:
    at_s = np.arange(10_000.0)
    values = np.random.default_rng(1).random(10_000)
    times, thin = drawing.thinned(at_s, values)
    assert times.size == drawing.MOST_POINTS
    assert thin.mean() == pytest.approx(values.mean(), rel=1e-2)
    steps = np.repeat([1.0, 3.0, 2.0], [4000, 1, 5999])
    kept_at, kept = drawing.stepped(at_s, steps)
    assert kept_at.tolist() == [0.0, 4000.0, 4001.0, 9999.0]
    assert kept.tolist() == [1.0, 3.0, 2.0, 2.0]
