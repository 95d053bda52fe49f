"""app.yaml: what loads, and the one sentence for each way it can be wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fogctl.config import schema, source
from fogctl.config.schema import Schema
from fogctl.errors import FogError
from fogctl.metrics.stage_side import StageWatch
from fogctl.runtime import app as apps
from fogctl.runtime.app import App, Mode, OutputMode, as_json, load, shipped_apps
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.stage_query import Spec

CODE = """
def first(a, options): ...
def second(b, options): ...
def both(a, b, options): ...
def bare(): ...
def by_name(a, *, options): ...
def anything(*streams): ...
"""
GOOD = """\
name: probe
stages:
  - name: first
    inputs: [a]
    output: b
    options: {work: 10, ratio: 0.5, on: true, word: x}
  - {name: second, inputs: [b], output: c, keeps_keys: false}
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "app.py").write_text(CODE)

    def write(text: str) -> Path:
        (tmp_path / "app.yaml").write_text(text)
        return tmp_path

    return write


def sentence(folder: Path) -> str:
    with pytest.raises(FogError) as caught:
        load(folder)
    return str(caught.value)


def one_stage(**keys: str) -> str:
    """app.yaml with one stage, whose keys are given as YAML."""
    wanted = {"name": "first", "inputs": "[a]", "output": "b"} | keys
    return "name: probe\nstages:\n  - " + "\n    ".join(f"{key}: {value}" for key, value in wanted.items())


def test_a_good_file_loads_with_its_defaults(write: Write) -> None:
    app = load(write(GOOD))
    first, second = app.stages
    assert (first.function, first.partitions, first.freshness_ms, first.mode) == (
        "first", 8, 5000.0, Mode.micro_batch,
    )  # fmt: skip
    assert first.options == (("on", "true"), ("ratio", "0.5"), ("word", "x"), ("work", "10"))
    assert first.output_mode is OutputMode.append
    assert first.keeps_keys
    assert not second.keeps_keys
    assert (app.sources, app.sinks) == (("a",), ("c",))
    assert app.topics == {"probe.a": 8, "probe.b": 8, "probe.c": 8}


def test_record_numbers_are_followed_through_stages_that_keep_them(write: Write) -> None:
    app = load(
        write(
            "name: probe\nstages:\n"
            "  - {name: last, function: second, inputs: [counts], output: end}\n"
            "  - {name: count, function: second, inputs: [b], output: counts, keeps_keys: false}\n"
            "  - {name: match, function: second, inputs: [b], output: matches}\n"
            "  - {name: first, inputs: [a], output: b}\n"
        )
    )
    assert set(app.numbered) == {"a", "b", "matches"}


def test_the_stage_runner_is_told_everything(write: Write) -> None:
    told = as_json(load(write(GOOD)).stages[1])
    assert set(told) == set(apps.Stage.__slots__)
    assert told["keeps_keys"] is False
    assert told["output_mode"] == "append"


def test_settings_of_kafka_clients_replace_ours_and_reach_the_connector(write: Write) -> None:
    text = "{consumer: {fetch.max.wait.ms: 500}, producer: {linger.ms: 0, compression.type: lz4}}"
    stage = load(write(one_stage(kafka=text, tasks="3"))).stages[0]
    assert stage.tasks == 3
    told = Spec(
        app="probe",
        stage=as_json(stage),
        code="",
        settings={},
        kafka=KafkaConnection("broker:9092"),
        input_topics=(),
        output_topic="",
        warm_up_topic="",
        checkpoint="",
        socket="",
        progress="",
        watch=StageWatch("127.0.0.1", 0, KafkaConnection("broker:9092")),
        origin="",
        most_tasks=3,
    )
    assert told.source_options["kafka.fetch.max.wait.ms"] == "500"
    assert told.source_options["kafka.max.poll.records"] == "5000"
    assert told.source_options["kafka.bootstrap.servers"] == "broker:9092"
    assert (told.sink_options["kafka.linger.ms"], told.sink_options["kafka.acks"]) == ("0", "all")
    assert told.sink_options["kafka.compression.type"] == "lz4"


def test_real_time_mode_writes_what_changed_by_default(write: Write) -> None:
    assert load(write(one_stage(mode="real-time"))).stages[0].output_mode is OutputMode.update


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (one_stage(partitons="4"), 6, 'unknown key "partitons" (did you mean "partitions"?'),
        (one_stage(checkpoint="/tmp/x"), 6, "fogctl keeps each stage's checkpoint itself"),
        (one_stage(tasks="0"), 6, "must be a whole number from 1 to 1000, not"),
        (one_stage(kafka="{producer: {acks: 0}}"), 6, '"acks" is set by fogctl, so that no record is lost'),
        (one_stage(kafka="{consumer: {sasl.jaas.config: x}}"), 6, "is set by fogctl"),
        (one_stage(kafka="{consumers: {}}"), 6, 'did you mean "consumer"?'),
        (one_stage(trigger="5s"), 6, "how a stage runs is told by mode and freshness"),
        (one_stage(name="First"), 3, 'stages[0].name: "First" is not a name: use 1 to 31 lower-case letters'),
        (one_stage(output="4b"), 5, '(did you mean "b"?)'),
        (one_stage(function="frist"), 6, 'has no function "frist" (did you mean "first"?'),
        (one_stage(name="third"), 3, 'stages[0].name: {folder}/app.py has no function "third"'),
        (one_stage(function="bare"), 6, "take 1 input and the options (write: def bare(a, options))"),
        (one_stage(function="by_name"), 6, "(write: def by_name(a, options))"),
        (one_stage(inputs="[a, c]"), 3, "does not take 2 inputs and the options"),
        (one_stage(inputs="[a, a]", function="both"), 4, "a stream is given twice (remove one)"),
        (one_stage(inputs="[]"), 4, "stages[0].inputs: has too few items"),
        (one_stage(inputs="a"), 4, "must be a list"),
        (one_stage(output="a"), 4, 'the stage reads "a", which it writes itself (name another output)'),
        (one_stage(partitions="0"), 6, 'must be a whole number from 1 to 1000, not "0"'),
        (one_stage(partitions="many"), 6, 'must be a whole number from 1 to 1000, not "many"'),
        (one_stage(partitions="true"), 6, "must be a whole number from 1 to 1000"),
        (one_stage(freshness="5"), 6, "the unit is missing"),
        (one_stage(freshness="0s"), 6, "must be more than 0"),
        (one_stage(memory="1MiB"), 6, "is too little for an executor (give it 64MiB or more)"),
        (one_stage(mode="realtime"), 6, 'did you mean "real-time"?'),
        (one_stage(output_mode="complete"), 6, '"complete" is not possible here'),
        (one_stage(keeps_keys="sometimes"), 6, "must be true or false"),
        (one_stage(options="{work: [1]}"), 6, "an option is text, a number or true/false, not a list"),
        (one_stage(options="{work: }"), 6, "an option is text, a number or true/false, not nothing"),
        (one_stage(mode="real-time", freshness="2s"), 7, "(write freshness: 5s)"),
        (one_stage(mode="real-time", output_mode="append"), 7, "(write output_mode: update or"),
        ("name: probe\n", 1, "stages: is missing"),
        ("name: probe\nstages: []\n", 2, "stages: has too few items"),
        ("name: probe\ncode: ap.py\n" + GOOD.split("\n", 1)[1], 2, "there is no file {folder}/ap.py"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_sentence(write: Write, text: str, line: int, words: str) -> None:
    folder = write(text)
    told = sentence(folder)
    assert told.startswith(f"{folder}/app.yaml:{line}: ")
    assert words.replace("{folder}", str(folder)) in told
    assert "\n" not in told


STAGES = {
    "a stage twice": (
        "  - {name: first, inputs: [a], output: b}\n  - {name: first, inputs: [a], output: c}\n",
        'the stage "first" is given twice (rename one)',
    ),
    "two writers": (
        "  - {name: first, inputs: [a], output: c}\n  - {name: second, inputs: [b], output: c}\n",
        '"c" is written by first already',
    ),
    "other partitions": (
        "  - {name: first, inputs: [a], output: b, partitions: 4}\n"
        "  - {name: second, inputs: [a], output: c, partitions: 6}\n",
        'second reads "a" with 6 partitions, first with 4 (a stream has one number of partitions',
    ),
    "a circle": (
        "  - {name: into, function: first, inputs: [a], output: b}\n"
        "  - {name: both, inputs: [b, e], output: c}\n"
        "  - {name: next, function: first, inputs: [c], output: d}\n"
        "  - {name: back, function: first, inputs: [d], output: e}\n",
        "the stages feed each other in a circle: ",
    ),
}


@pytest.mark.parametrize("what", STAGES)
def test_stages_that_do_not_fit_together_are_refused(write: Write, what: str) -> None:
    stages, words = STAGES[what]
    assert words in sentence(write("name: probe\nstages:\n" + stages))


def test_a_circle_is_shown_in_the_direction_records_flow(write: Write) -> None:
    told = sentence(write("name: probe\nstages:\n" + STAGES["a circle"][0]))
    circle = told.split("circle: ")[1].split(" (")[0].split(" → ")
    assert circle[0] == circle[-1]
    flows = {("both", "next"), ("next", "back"), ("back", "both")}
    assert set(pairwise(circle)) == flows


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 7), st.data())
def test_a_circle_is_found_exactly_where_there_is_one(
    tmp_path: Path, count: int, data: st.DataObject
) -> None:
    """The judge follows every edge again and again until nothing new is reached."""
    inputs = [
        data.draw(
            st.lists(st.sampled_from(["in", *(f"s{n}" for n in range(count))]), min_size=1, unique=True)
        )
        for _ in range(count)
    ]
    reach = {n: {int(stream[1:]) for stream in inputs[n] if stream != "in"} for n in range(count)}
    for _ in range(count):
        reach = {n: reached.union(*(reach[other] for other in reached)) for n, reached in reach.items()}
    circular = any(n in reached for n, reached in reach.items())
    (tmp_path / "app.py").write_text(CODE)
    (tmp_path / "app.yaml").write_text(
        "name: probe\nstages:\n"
        + "".join(
            f"  - {{name: n{n}, function: anything, inputs: [{', '.join(inputs[n])}], output: s{n}}}\n"
            for n in range(count)
        )
    )
    if circular:
        told = sentence(tmp_path)
        assert "circle" in told or "which it writes itself" in told
    else:
        load(tmp_path)


@pytest.mark.parametrize("code", ["def first(a, options:\n", "\x00", "if x:\n"])
def test_code_that_is_not_python_is_refused_with_its_place(write: Write, code: str) -> None:
    folder = write(GOOD)
    (folder / "app.py").write_text(code)
    assert sentence(folder).startswith(f"{folder}/app.py")
    assert "is not valid Python" in sentence(folder)


def test_checking_an_app_runs_nothing_of_it(write: Write, tmp_path: Path) -> None:
    folder = write(GOOD)
    marker = tmp_path / "ran"
    (folder / "app.py").write_text(f"open({str(marker)!r}, 'w')\n" + CODE)
    load(folder)
    assert not marker.exists()


@pytest.mark.parametrize(
    "code",
    [
        "from elsewhere import first, second\n",
        "from elsewhere import *\n",
        "import functools\nfirst = second = functools.partial(print)\n",
        "try:\n    def first(a, options): ...\nexcept ImportError:\n    pass\nif True:\n    second = first\n",
        "@wraps\ndef first(): ...\ndef second(b, options=None, more=1): ...\n",
        "def first(*streams): ...\ndef second(b, /, options): ...\n",
    ],
)
def test_functions_may_come_from_anywhere(write: Write, code: str) -> None:
    folder = write(GOOD)
    (folder / "app.py").write_text(code)
    assert isinstance(load(folder), App)


def test_an_unknown_app_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(FogError, match=r'there is no app "sensor" \(did you mean "sensors"\?'):
        load("sensor")


def test_a_folder_without_an_app_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FogError, match=r"has no app\.yaml \(make an app: fogctl app new NAME\)"):
        load(tmp_path)


def test_spoilt_files_never_end_in_a_traceback(write: Write) -> None:
    """Bytes and lines of a good file changed at random: it loads, or it is refused with the file's name."""
    rng = random.Random(5)
    pieces = [
        "",
        ":",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "\t",
        "null",
        "&a",
        "*a",
        "!!x",
        "'",
        "é",
        "\n",
        "name",
        "1e9",
    ]
    refused: list[str] = []
    for _ in range(400):
        text = GOOD
        for _ in range(rng.randrange(1, 4)):
            start = rng.randrange(len(text))
            text = text[:start] + rng.choice(pieces) + text[start + rng.randrange(8) :]
        folder = write(text)
        try:
            load(folder)
        except FogError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(told.startswith(str(folder)) for told in refused)


def test_every_shipped_app_loads_and_agrees_with_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(schema.json_schema(Schema.app))
    shipped = shipped_apps()
    assert set(shipped) >= {"identity", "logs", "sensors", "taxi", "taxi3"}
    for name, file in shipped.items():
        assert load(name).name == name
        validator.validate(source.read(file).data)
        marker, _, where = file.read_text().splitlines()[0].partition("$schema=")
        assert marker == "# yaml-language-server: "
        assert (file.parent / where).is_file()


@pytest.mark.parametrize(
    "keys", [{"partitons": "4"}, {"name": "First"}, {"partitions": "0"}, {"freshness": "5"}, {"mode": "fast"}]
)
def test_the_schema_refuses_what_the_loader_refuses(keys: dict[str, str]) -> None:
    validator = jsonschema.Draft202012Validator(schema.json_schema(Schema.app))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(source.parse(one_stage(**keys), "x").data)
