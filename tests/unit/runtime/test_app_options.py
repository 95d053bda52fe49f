from __future__ import annotations

import pytest

from fogctl.errors import FogError
from fogctl.runtime import app as apps
from fogctl.runtime.app_options import with_options


def test_options_replace_those_of_app_yaml_and_the_last_one_counts() -> None:
    app = with_options(apps.load("logs"), ["matcher.work=5", "counter.by=level", "matcher.work=a=b"])
    assert dict(app.stage("matcher").options) == {"work": "a=b"}
    assert dict(app.stage("counter").options) == {"by": "level"}
    assert app.stage("parser") == apps.load("logs").stage("parser")


def test_without_options_the_app_is_as_it_was() -> None:
    app = apps.load("taxi")
    assert with_options(app, []) is app


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("work=5", '--set: "work=5" does not say which option of which stage (nearest.work=20000)'),
        ("nearest.work", '"nearest.work" does not say which option of which stage'),
        ("nearest.=5", "does not say which option of which stage"),
        ("nearst.work=5", 'app taxi has no stage "nearst" (did you mean "nearest"? its stages: nearest)'),
        (
            "nearest.wrk=5",
            'stage nearest has no option "wrk" (did you mean "work"? app.yaml gives it work)',
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(given: str, sentence: str) -> None:
    with pytest.raises(FogError) as caught:
        with_options(apps.load("taxi"), [given])
    assert sentence in str(caught.value)


def test_a_stage_without_options_says_so() -> None:
    with pytest.raises(FogError, match=r'stage parser has no option "work" \(app.yaml gives it none\)'):
        with_options(apps.load("logs"), ["parser.work=5"])
