"""Loading `experiment.yaml`: read, validate, find testbed, app and policies; or say what to mend."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fogctl.config import boards as board_profiles
from fogctl.config import shipped as shipped_testbeds
from fogctl.config import source, testbed
from fogctl.config.problems import Problem, choice_hint, refuse
from fogctl.config.shares import Capacity
from fogctl.config.source import Document
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.errors import FogError
from fogctl.experiment import load as loads
from fogctl.experiment.experiment_file import AppChoice, ExperimentFile, Goal
from fogctl.experiment.load import Load
from fogctl.runtime import app as apps
from fogctl.runtime.app import App, Mode, OutputMode, Stage
from fogctl.testbed import state
from fogctl.testbed.model import Kind, Role, Testbed

_SHIPPED = Path(__file__).resolve().parent / "shipped"


@dataclass(frozen=True, slots=True)
class PolicyUse:
    """A policy as an experiment uses it; the label is what reports call it."""

    name: str
    label: str
    options: tuple[tuple[str, Any], ...] = ()
    goal: Goal = field(default_factory=Goal)


@dataclass(frozen=True, slots=True)
class Part:
    """One policy in one repetition: what is replayed, scored and resumed as a whole."""

    policy: PolicyUse
    repetition: int
    seed: int

    @property
    def key(self) -> str:
        """What the part is called in files."""
        return f"{re.sub(r'[^A-Za-z0-9-]+', '_', self.policy.label)}.{self.repetition}"

    def __str__(self) -> str:
        return f"{self.policy.label}, repetition {self.repetition}"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A node that loses its power or its links for a while, counted from the start of a replay."""

    at_s: float
    kind: Literal["kill", "cut"]
    node: str
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """A trace, an app, a testbed and policies, ready to be run."""

    name: str
    source: Path
    text: str
    """The file as it was written: it goes into the manifest."""
    config: ExperimentFile
    testbed: Testbed
    app: App
    policies: tuple[PolicyUse, ...]
    start: tuple[tuple[str, tuple[str, ...]], ...]
    """Nodes of each stage at the start."""
    bed_given: bool = False
    """Whether the testbed is another one than the file names."""

    @property
    def parts(self) -> list[Part]:
        """Policy by policy within each repetition, so that what is slow drifts alike for all."""
        return [
            Part(policy, repetition, self.config.seed + repetition - 1)
            for repetition in range(1, self.config.repetitions + 1)
            for policy in self.policies
        ]

    def load(self, seed: int) -> Load:
        """What is sent in the repetition of that seed, the same for every policy."""
        here = self.source.parent
        # An experiment that ships has no data beside it: the user's is where the command is given.
        return loads.build(self.config.trace, seed, Path.cwd() if here == _SHIPPED else here)

    def faults(self, load: Load) -> list[PlannedFault]:
        """What goes wrong during the replay of that load."""
        return [
            PlannedFault(f.at * load.duration_s, "kill" if f.kill else "cut", str(f.kill or f.cut), f.lasts)
            for f in self.config.faults
        ]

    @property
    def tolerance_ms(self) -> float:
        """How far a measured RTT may be off."""
        return self.config.tolerances.rtt or self.testbed.tolerance_ms


def shipped() -> dict[str, Path]:
    """The experiments that come with fogctl, by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}


def find(where: Path | str) -> Path:
    """The experiment.yaml that is meant: a file, or the name of a shipped one."""
    path = Path(where)
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return path
    if (path / "experiment.yaml").is_file():
        return path / "experiment.yaml"
    known = shipped()
    if str(where) in known:
        return known[str(where)]
    raise FogError(
        f"there is no experiment {quoted(str(where))}",
        hint=choice_hint(str(where), [*known], f"shipped: {', '.join(known)}; or name an experiment.yaml"),
    )


def load(
    where: Path | str,
    *,
    kind: Kind | None = None,
    policies: Sequence[str] = (),
    repetitions: int | None = None,
    seed: int | None = None,
    bed: Testbed | None = None,
) -> Experiment:
    """The experiment of a file or of that shipped name; the options replace what the file says.

    `bed` is a testbed to use instead of the file's, one that is up.
    """
    path = find(where)
    document = source.read(path, "experiment")
    return build(document, path, kind=kind, policies=policies, repetitions=repetitions, seed=seed, bed=bed)


def of_manifest(
    manifest: Mapping[str, Any], *, kind: Kind | None = None, policies: Sequence[str] | None = None
) -> Experiment:
    """The experiment that a run was begun with, whatever its file says by now; or on another kind."""
    chosen = manifest["overrides"]
    bed = chosen.get("testbed")
    begun = build(
        source.parse(manifest["config"], manifest["source"]),
        Path(manifest["source"]),
        kind=kind or Kind(chosen["kind"]),
        policies=chosen["policies"] if policies is None else policies,
        repetitions=chosen["repetitions"],
        seed=chosen["seed"],
        text=manifest["config"],
        bed=None if bed is None else state.from_json(bed).testbed,
    )
    # A testbed that ships is drawn for the host that asks, and that may be another one by now.
    cores = {node["name"]: node["cores"] for node in manifest["testbed"]["nodes"]}
    nodes = tuple(
        replace(node, cpu_cores=cores.get(node.name, node.cpu_cores)) for node in begun.testbed.nodes
    )
    return replace(begun, testbed=replace(begun.testbed, nodes=nodes))


def build(
    document: Document,
    path: Path,
    *,
    kind: Kind | None = None,
    policies: Sequence[str] = (),
    repetitions: int | None = None,
    seed: int | None = None,
    text: str | None = None,
    bed: Testbed | None = None,
) -> Experiment:
    """The experiment that a parsed file describes; `text` is the file, where it is not what is there now.

    `bed` is a testbed to use instead of the one that the file names.
    """
    file = validate(document, ExperimentFile)
    changed: dict[str, Any] = {}
    if kind is not None:
        changed["testbed"] = file.testbed.model_copy(update={"kind": kind})
    if repetitions is not None:
        changed["repetitions"] = repetitions
    if seed is not None:
        changed["seed"] = seed
    file = file.model_copy(update=changed)
    chosen = _chosen(document, file, policies)
    given = bed
    bed = _testbed(document, file, path) if given is None else replace(given, kind=kind or given.kind)
    app = _app(document, file, path)
    start = _start(document, file, app, bed)
    return Experiment(
        file.name,
        path.resolve(),
        _text(path) if text is None else text,
        file,
        bed,
        app,
        chosen,
        start,
        given is not None,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _chosen(document: Document, file: ExperimentFile, only: Sequence[str]) -> tuple[PolicyUse, ...]:
    uses = []
    seen: dict[str, int] = {}
    problems = []
    for number, entry in enumerate(file.policies):
        label = entry.label or entry.name
        if label in seen:
            key = ("policies", number)
            hint = "give one of them another label"
            problems.append(Problem(f"{quoted(label)} is there twice", document.line(key), key, hint))
        seen[label] = number
        goal = entry.goal or file.goal
        uses.append(PolicyUse(entry.name, label, tuple(sorted(entry.options.items())), goal))
    refuse(document.file, problems)
    for name in only:
        if name not in seen:
            raise FogError(
                f"the experiment has no policy {quoted(name)}",
                key="--policy",
                hint=choice_hint(name, [*seen]),
            )
    return tuple(use for use in uses if not only or use.label in only)


def _testbed(document: Document, file: ExperimentFile, path: Path) -> Testbed:
    choice = file.testbed
    if choice.use in [example.value for example in shipped_testbeds.Example]:
        # Called after the experiment, so that it never is a testbed that somebody has up already.
        name = re.sub(r"[^a-z0-9]", "", file.name)[:20]
        example = shipped_testbeds.Example(choice.use)
        kind = choice.kind or Kind.virtual
        boards = board_profiles.load_all()
        # A simulated testbed is the emulated one on a host of two cores, so that the two can be compared.
        host = Capacity(2.0, 64 << 30) if kind is Kind.sim else Capacity.of_this_host()
        drawn = Kind.virtual if kind is Kind.sim else kind
        made = shipped_testbeds.draft(example, host, boards, name, choice.nodes, drawn)
        with tempfile.TemporaryDirectory(prefix="fog-testbed-") as folder:
            for file_name, text in made.files.items():
                (Path(folder) / file_name).write_text(text, encoding="utf-8")
            bed = testbed.load(Path(folder) / "testbed.yaml", host.cores, host.memory_bytes)
            return replace(bed, kind=kind)
    where = path.parent / choice.use
    if not where.exists():
        known = [example.value for example in shipped_testbeds.Example]
        key = ("testbed", "use")
        hint = choice_hint(choice.use, known, f"shipped: {', '.join(known)}; or name a testbed.yaml")
        refuse(
            document.file,
            [Problem(f"there is no testbed {quoted(choice.use)}", document.line(key), key, hint)],
        )
    if choice.nodes is not None:
        key = ("testbed", "nodes")
        message = "a testbed file says itself which nodes it has"
        refuse(document.file, [Problem(message, document.line(key), key, "remove this key")])
    where = where / "testbed.yaml" if where.is_dir() else where
    parsed = source.read(where, "testbed")
    if choice.kind is not None and isinstance(parsed.data, dict):
        parsed = replace(parsed, data={**parsed.data, "kind": choice.kind.value})
    return testbed.build(parsed)


def _app(document: Document, file: ExperimentFile, path: Path) -> App:
    use = file.app.use
    beside = path.parent / use
    try:
        app = apps.load(beside if beside.exists() else use)
    except FogError as error:
        if error.file is not None:
            raise
        key = ("app", "use") if isinstance(document.data.get("app"), dict) else ("app",)
        raise FogError(
            error.message, file=document.file, line=document.line(key), key="app", hint=error.hint
        ) from error
    return replace(app, stages=tuple(_changed(stage, file.app) for stage in app.stages))


def _changed(stage: Stage, choice: AppChoice) -> Stage:
    """A stage with what the experiment asks for instead of what the app says."""
    if choice.work is not None and "work" in dict(stage.options):
        options = {**dict(stage.options), "work": str(choice.work)}
        stage = replace(stage, options=tuple(sorted(options.items())))
    if choice.partitions is not None:
        stage = replace(stage, partitions=choice.partitions)
    if choice.mode is not None:
        real_time = choice.mode is Mode.real_time
        stage = replace(
            stage, mode=choice.mode, output_mode=OutputMode.update if real_time else stage.output_mode
        )
    return stage


def _start(
    document: Document, file: ExperimentFile, app: App, bed: Testbed
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Nodes of each stage at the start: those given, or one each of those nearest to the broker."""
    stages = [stage.name for stage in app.stages]
    edges = [node.name for node in bed.nodes if node.role is Role.edge]
    problems = []
    for stage, nodes in file.app.start.items():
        key = ("app", "start", stage)
        if stage not in stages:
            hint = choice_hint(stage, stages)
            problems.append(Problem(f"the app has no stage {quoted(stage)}", document.line(key), key, hint))
        for node in nodes:
            if node not in edges:
                hint = choice_hint(node, edges, f"edge nodes: {', '.join(edges[:12])}")
                problems.append(Problem(f"there is no edge node {node}", document.line(key), key, hint))
        if not nodes:
            problems.append(Problem("names no node", document.line(key), key, "name at least one"))
    for number, fault in enumerate(file.faults):
        if (name := fault.kill or fault.cut) not in edges:
            where = ("faults", number)
            hint = choice_hint(str(name), edges, f"edge nodes: {', '.join(edges[:12])}")
            problems.append(Problem(f"there is no edge node {name}", document.line(where), where, hint))
    if len(edges) < len(stages):
        message = f"{len(stages)} stages need as many edge nodes; the testbed has {len(edges)}"
        problems.append(Problem(message, document.line(("testbed",)), ("testbed",)))
    refuse(document.file, problems)
    origin = next(
        (node.name for role in (Role.broker, Role.control) for node in bed.nodes if node.role is role), None
    )
    near = sorted(edges, key=lambda name: 0.0 if origin is None else bed.latencies.rtt_ms(origin, name))
    taken = {node for nodes in file.app.start.values() for node in nodes}
    free = iter([node for node in near if node not in taken])
    return tuple(
        (stage, tuple(file.app.start[stage]) if stage in file.app.start else (next(free),))
        for stage in stages
    )
