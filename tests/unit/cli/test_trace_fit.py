"""`fogctl trace fit`: what it reads, what it says, and how it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from fogmodels.arrivals import MAP
from typer.testing import CliRunner

from fogctl.cli.trace import app
from fogctl.errors import FogError

GAPS = MAP([[-11, 1.0], [0.05, -0.35]], [[10, 0], [0, 0.3]]).sample(2_000, np.random.default_rng(0))
runner = CliRunner()


def run(*arguments: object) -> dict[str, object]:
    result = runner.invoke(app, ["fit", *map(str, arguments), "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def mean(data: dict[str, object]) -> float:
    return next(row["fit"] for row in data["statistics"] if row["what"].startswith("mean"))  # type: ignore[attr-defined]


def test_every_format_gives_the_same_fit(tmp_path: Path) -> None:
    stamps = np.concatenate([[0.0], np.cumsum(GAPS)])
    np.savez(tmp_path / "a.npz", iat=GAPS)
    np.save(tmp_path / "a.npy", GAPS)
    (tmp_path / "a.txt").write_text("# gaps\n" + "\n".join(map(repr, GAPS.tolist())))
    rows = "\n".join(f"x{i},{t * 1000!r}" for i, t in enumerate(stamps.tolist()))
    (tmp_path / "a.csv").write_text("id,time_ms\n" + rows)
    arrays = [run(tmp_path / name) for name in ("a.npz", "a.npy", "a.txt")]
    by_name = run(tmp_path / "a.csv", "--column", "time_ms", "--unit", "ms")
    by_number = run(tmp_path / "a.csv", "--column", "2", "--unit", "ms")
    assert {data["kind"] for data in arrays} == {"iats"}
    assert by_name["kind"] == "timestamps"
    for data in (*arrays, by_name, by_number):
        assert data["events"] == GAPS.size
        assert mean(data) == pytest.approx(GAPS.mean())
        assert data["states"] == arrays[0]["states"]


def test_fit_can_be_read_back_as_a_process(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", GAPS)
    data = run(tmp_path / "a.npy")
    assert MAP(data["D0"], data["D1"]).mean == pytest.approx(GAPS.mean())  # type: ignore[arg-type]


def test_prediction_by_utilisation_and_by_service_time_agree(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", GAPS)
    one = run(tmp_path / "a.npy", "--utilisation", 0.7)
    two = run(tmp_path / "a.npy", "--service-mean", repr(0.7 * float(GAPS.mean())))
    assert one["predictions"] == two["predictions"]
    by_name = {p["predictor"]: p for p in one["predictions"]}  # type: ignore[attr-defined]
    assert by_name["recommended"]["mean_s"] > by_name["M/G/1"]["mean_s"]
    assert by_name["Kingman"]["p95_s"] is None


def test_table_and_plot(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", GAPS)
    picture = tmp_path / "fit.svg"
    result = runner.invoke(
        app, ["fit", str(tmp_path / "a.npy"), "--utilisation", "0.5", "--plot", str(picture)]
    )
    assert result.exit_code == 0, result.output
    assert "autocorrelation, lag 1" in result.output
    assert "recommended" in result.output
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("name", "content", "options", "says"),
    [
        ("a.txt", "", [], "is empty"),
        ("a.txt", "1\n2\nthree\n", [], "a.txt:3: 'three' is not a number"),
        ("a.txt", "1\n", [], "fewer than two"),
        ("a.txt", "1\nnan\n", [], "not finite"),
        ("a.txt", "1\n2\n3\n", [], "at least 10"),
        ("a.txt", "5\n1\n-2\n", [], "value 3 is negative"),
        ("a.txt", "5\n1\n2\n", ["--kind", "timestamps"], "must not go back"),
        ("a.csv", "a,b\n1,2\n", [], "has 2 columns (--column one of: a, b)"),
        ("a.csv", "a,b\n1,2\n", ["--column", "c"], "c: has no such column"),
        ("a.csv", "a,b\n1,2\n3\n", ["--column", "b"], "a.csv:3: has only 1 columns"),
        ("a.npz", "junk", [], "a.npz: "),
        ("a.npy", "junk", [], "a.npy: "),
    ],
)
def test_bad_files_get_one_sentence(
    tmp_path: Path, name: str, content: str, options: list[str], says: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(FogError) as caught:
        runner.invoke(app, ["fit", str(file), *options], catch_exceptions=False)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--utilisation", "1.2"], "in (0, 1)"),
        (["--service-mean", "-1"], "positive"),
        (["--service-mean", "1e9"], "overloaded"),
        (["--service-mean", "1", "--utilisation", "0.5"], "not both"),
        (["--plot", "/nonexistent/fit.svg"], "cannot be written"),
    ],
)
def test_bad_options_get_one_sentence(tmp_path: Path, options: list[str], says: str) -> None:
    np.save(tmp_path / "a.npy", GAPS)
    with pytest.raises(FogError) as caught:
        runner.invoke(app, ["fit", str(tmp_path / "a.npy"), *options], catch_exceptions=False)
    assert says in str(caught.value)


def test_missing_file_and_missing_array_are_named(tmp_path: Path) -> None:
    with pytest.raises(FogError, match="no such file"):
        runner.invoke(app, ["fit", str(tmp_path / "none.csv")], catch_exceptions=False)
    np.savez(tmp_path / "two.npz", one=GAPS, two=GAPS)
    with pytest.raises(FogError, match="one, two"):
        runner.invoke(app, ["fit", str(tmp_path / "two.npz")], catch_exceptions=False)
