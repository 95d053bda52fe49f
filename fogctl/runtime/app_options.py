"""Options of an app's stages as given on the command line, instead of those in app.yaml. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fogctl.config.problems import choice_hint
from fogctl.config.units import quoted
from fogctl.errors import FogError
from fogctl.runtime.app import App, Stage

KEY = "--set"


def with_options(app: App, given: Sequence[str]) -> App:
    """The app with these options, each as STAGE.OPTION=VALUE; only options that app.yaml has can be set."""
    for text in given:
        stage, option, value = _parts(text, app)
        _require_known(stage, option)
        options = tuple(sorted({**dict(stage.options), option: value}.items()))
        changed = replace(stage, options=options)
        app = replace(
            app,
            stages=tuple(changed if each is stage else each for each in app.stages),
            given=(*app.given, (stage.name, option, value)),
        )
    return app


def _parts(text: str, app: App) -> tuple[Stage, str, str]:
    place, equals, value = text.partition("=")
    name, dot, option = place.partition(".")
    if not equals or not dot or not option:
        example = next(((s.name, s.options[0]) for s in app.stages if s.options), None)
        hint = f"{example[0]}.{example[1][0]}={example[1][1]}" if example else "STAGE.OPTION=VALUE"
        raise FogError(f"{quoted(text)} does not say which option of which stage", key=KEY, hint=hint)
    for stage in app.stages:
        if stage.name == name:
            return stage, option, value
    known = [stage.name for stage in app.stages]
    raise FogError(
        f"app {app.name} has no stage {quoted(name)}",
        key=KEY,
        hint=choice_hint(name, known, f"its stages: {', '.join(known)}"),
    )


def _require_known(stage: Stage, option: str) -> None:
    known = [name for name, _ in stage.options]
    if option not in known:
        there = f"app.yaml gives it {', '.join(known)}" if known else "app.yaml gives it none"
        raise FogError(
            f"stage {stage.name} has no option {quoted(option)}",
            key=KEY,
            hint=choice_hint(option, known, there),
        )
