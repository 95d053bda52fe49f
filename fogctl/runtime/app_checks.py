"""What must hold between the parts of an app.yaml: stages, streams, and the functions in the code file."""

from __future__ import annotations

from pathlib import Path

from fogctl.config.problems import Problem, choice_hint
from fogctl.config.source import Document
from fogctl.config.units import quoted
from fogctl.runtime import app_code, realtime
from fogctl.runtime.app_file import MOVED, AppFile, Mode, StageEntry


def moved_keys(document: Document) -> list[Problem]:
    """Keys that other systems have and app.yaml has not."""
    data = document.data
    stages = data.get("stages") if isinstance(data, dict) else None
    return [
        Problem(MOVED[key], document.line(("stages", number, key)), ("stages", number, key))
        for number, stage in enumerate(stages if isinstance(stages, list) else [])
        for key in (stage if isinstance(stage, dict) else {})
        if key in MOVED
    ]


def problems(file: AppFile, code: Path) -> list[Problem]:
    """What is wrong with an app whose keys and values are right one by one; places are keys, not lines."""
    return [*_stage_problems(file), *_stream_problems(file), *_code_problems(file, code)]


def _stage_problems(file: AppFile) -> list[Problem]:
    found: list[Problem] = []
    names: set[str] = set()
    for number, stage in enumerate(file.stages):
        here = ("stages", number)
        if stage.name in names:
            found.append(
                Problem(
                    f"the stage {quoted(stage.name)} is given twice", key=(*here, "name"), hint="rename one"
                )
            )
        names.add(stage.name)
        if len(set(stage.inputs)) < len(stage.inputs):
            found.append(Problem("a stream is given twice", key=(*here, "inputs"), hint="remove one"))
        if stage.mode is Mode.real_time:
            if sentence := realtime.output_mode_problem(stage.effective_output_mode):
                found.append(Problem(sentence, key=(*here, "output_mode")))
            if sentence := realtime.interval_problem(stage.freshness):
                found.append(Problem(sentence, key=(*here, "freshness")))
    return found


def _stream_problems(file: AppFile) -> list[Problem]:
    found: list[Problem] = []
    writers: dict[str, str] = {}
    readers: dict[str, StageEntry] = {}
    for number, stage in enumerate(file.stages):
        here = ("stages", number)
        if stage.output in writers:
            found.append(
                Problem(
                    f"{quoted(stage.output)} is written by {writers[stage.output]} already",
                    key=(*here, "output"),
                    hint="one stage writes a stream: name another, and let its readers read both",
                )
            )
        writers.setdefault(stage.output, stage.name)
        if stage.output in stage.inputs:
            found.append(
                Problem(
                    f"the stage reads {quoted(stage.output)}, which it writes itself",
                    key=(*here, "inputs"),
                    hint="name another output",
                )
            )
        for stream in stage.inputs:
            first = readers.setdefault(stream, stage)
            if first.partitions != stage.partitions:
                found.append(
                    Problem(
                        f"{stage.name} reads {quoted(stream)} with {stage.partitions} partitions, "
                        f"{first.name} with {first.partitions}",
                        key=(*here, "partitions"),
                        hint="a stream has one number of partitions: give its readers the same",
                    )
                )
    circle = [] if found else _circle(file)
    if circle:
        found.append(
            Problem(
                f"the stages feed each other in a circle: {' → '.join([*circle, circle[0]])}",
                key=("stages",),
                hint="let one of them read a stream that does not depend on it",
            )
        )
    return found


def _circle(file: AppFile) -> list[str]:
    """Stages that feed each other in a circle, in their order; none if there is no circle."""
    writer = {stage.output: stage for stage in file.stages}
    feeders = {
        stage.name: [writer[stream].name for stream in stage.inputs if stream in writer]
        for stage in file.stages
    }
    while True:
        free = [name for name, before in feeders.items() if not before]
        if not free:
            break
        for name in free:
            del feeders[name]
        feeders = {name: [one for one in before if one in feeders] for name, before in feeders.items()}
    walked: list[str] = []
    here = next(iter(feeders), None)
    while here is not None and here not in walked:
        walked.append(here)
        here = feeders[here][0]  # every stage that is left is fed by another that is left
    return walked[walked.index(here) :][::-1] if here is not None else []


def _code_problems(file: AppFile, path: Path) -> list[Problem]:
    if not path.is_file():
        return [Problem(f"there is no file {path}", key=("code",), hint="name the Python file of the app")]
    code = app_code.read(path)
    found: list[Problem] = []
    for number, stage in enumerate(file.stages):
        name = stage.function or stage.name
        key = ("stages", number, "function" if stage.function is not None else "name")
        signature = code.find(name)
        if signature is None:
            known = [known for known, how in code.functions.items() if how is not app_code.ANY]
            hint = choice_hint(name, known, f"its functions: {', '.join(known) or 'none'}")
            found.append(Problem(f"{path} has no function {quoted(name)}", key=key, hint=hint))
        elif not signature.takes(len(stage.inputs) + 1):
            wanted = ", ".join([*(stream.replace("-", "_") for stream in stage.inputs), "options"])
            found.append(
                Problem(
                    f"the function {name} of {path} does not take {len(stage.inputs)} input and the options"
                    if len(stage.inputs) == 1
                    else f"the function {name} of {path} does not take {len(stage.inputs)} inputs "
                    "and the options",
                    key=key,
                    hint=f"write: def {name}({wanted})",
                )
            )
    return found
