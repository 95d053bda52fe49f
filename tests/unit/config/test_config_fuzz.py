"""Thousands of mutated testbeds: each is either refused in sentences or a testbed that keeps its promises."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fogctl.config import boards, shipped, source, testbed
from fogctl.config.fields import node_name
from fogctl.config.shares import LEAST_CORES
from fogctl.errors import BAD_INPUT, FogError
from fogctl.testbed import model
from fogctl.testbed.model import Role

CORES, MEMORY = 2.0, float(8 << 30)
BOARDS = boards.load_all()
RICH = b"""name: rich
kind: virtual
scale: {cpu: 3%, memory: 20%}
tolerance: 1.5ms
nodes:
  - {name: cloud, role: control, site: dc, board: host}
  - {name: "pi[01-04]", site: north, board: rpi4-4g, cpu: 10%}
  - {name: zero, site: south, board: rpi-zero2w, memory: 300MiB}
latency:
  default: {rtt: 5ms, jitter: 1ms}
  sites: [{between: [north, dc], rtt: 20ms, loss: 0.1%, rate: 100mbit}, {between: [north, north], rtt: 2ms}]
  links: [{between: [pi01, zero], rtt: 80ms, rate: unlimited, reorder: true}]
schedule:
  - {at: 1min, between: [pi01, zero], rtt: 300ms}
  - {at: 90s, sites: [north, dc], rtt: 100ms, jitter: 10ms}
"""
FILES = [(shipped.folder(example) / "testbed.yaml").read_bytes() for example in shipped.Example] + [RICH]
CSV = (shipped.folder(shipped.Example.gesscale) / "latencies.csv").read_bytes()
TREES = [source.parse(text.decode(), "x").data for text in FILES]
TOKEN = re.compile(rb"[\w.%-]+|\s+|[^\w\s]")
NASTY = [
    *(
        "",
        "-1",
        "-80ms",
        "80",
        "nan",
        ".nan",
        ".inf",
        "1e400",
        "1e99s",
        "9" * 50,
        "0",
        "0%",
        "1000000%",
        "null",
    ),
    *(
        "true",
        "~",
        "pi[1-99999999]",
        "pi[9-1]",
        "pi[1-1000]",
        "[",
        "]",
        "{",
        "}",
        "*a",
        "&a",
        "!!python/x",
        "\t",
    ),
    *(
        "\x00",
        "\x85",
        "\u2028",
        "é",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        "'",
        '"',
    ),
    *(
        "#",
        "- ",
        ": ",
        "host",
        "rpi4-4g",
        "rpi4-3g",
        "control",
        "broker",
        "sim",
        "k3s",
        "north",
        "latencies.csv",
    ),
    *(
        "/dev/zero",
        "/proc/self/mem",
        "..",
        "/",
        "a" * 300,
        "<<",
        "? ",
        "---\n",
        "...\n",
        "|\n",
        ">\n",
        "%YAML 1.2\n",
    ),
    *(
        "rtt",
        "between",
        "[pi1, pi1]",
        "unlimited",
        "switch",
        "x-mgmt",
        "60%",
        "512MiB",
        "5kB",
        "1ms",
        "0ms",
        "µs",
    ),
]
VALUES: list[Any] = [
    *NASTY[:20], None, True, -1, 0, 1e308, math.nan, [], {}, [[]], {"a": {}}, ["pi1", "pi2"], ["pi1"], [1, 2],
]  # fmt: skip

LEVELS = ["bytes", "tokens", "structure", "csv"]
# One draw of bytes, cut up by `decoded`: a sixth of the time many small draws would take.
recipes = st.binary(min_size=8, max_size=22)


def decoded(recipe: bytes) -> tuple[int, str, list[tuple[int, int, int, int]]]:
    """Which file, at which level, and the mutations: how, where, how much, what."""
    changes = []
    for start in range(1, len(recipe), 7):
        part = recipe[start : start + 7].ljust(7, b"\0")
        where, size, what = (int.from_bytes(part[at : at + 2], "big") for at in (1, 3, 5))
        changes.append((part[0] % 8, where, size, what))
    return recipe[0] % len(FILES), LEVELS[recipe[0] // len(FILES) % len(LEVELS)], changes


def mutate_bytes(text: bytes, how: int, where: int, size: int, what: int) -> bytes:
    start = where % (len(text) + 1)
    end = min(len(text), start + size % 12 + 1)
    if how <= 2:
        return text[:start] + bytes([what % 256]) + text[start + (how == 0) :]
    if how == 3:
        return text[:start] + text[end:]
    if how == 4:
        return text[:start]
    if how == 5:
        other = what % (len(text) + 1)
        return text[:other] + text[start:end] + text[other:]
    return text[:start] + NASTY[what % len(NASTY)].encode() + text[start if how == 6 else end :]


def mutate_tokens(text: bytes, how: int, where: int, size: int, what: int) -> bytes:
    tokens = TOKEN.findall(text)
    if not tokens:
        return text
    place = where % len(tokens)
    new = tokens[what % len(tokens)] if how < 3 else NASTY[what % len(NASTY)].encode()
    if how in (2, 5):
        tokens.insert(place, new)
    elif how == 6:
        del tokens[place]
    elif how == 7:
        lines = text.splitlines(keepends=True)
        lines.insert(where % (len(lines) + 1), lines[size % len(lines)])
        return b"".join(lines)
    else:
        tokens[place] = new
    return b"".join(tokens)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    found: list[tuple[Any, Any]] = []
    pending = [tree]
    while pending:
        here = pending.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            found.append((here, key))
            pending.append(here[key])
    return found


def mutate_tree(tree: Any, how: int, where: int, size: int, what: int) -> None:
    found = places(tree)
    if not found:
        return
    container, key = found[where % len(found)]
    other_container, other_key = found[what % len(found)]
    if how <= 1:
        container[key] = copy.deepcopy(VALUES[what % len(VALUES)])
    elif how == 2:
        del container[key]
    elif how <= 4:
        container[key] = copy.deepcopy(other_container[other_key])
    elif isinstance(container, list):
        container.insert(size % (len(container) + 1), copy.deepcopy(container[key]))
    elif how == 5:
        container[NASTY[what % len(NASTY)]] = container.pop(key)
    elif isinstance(other_key, str):
        container[other_key] = container.pop(key)


def mutated(base: int, level: str, changes: list[tuple[int, int, int, int]]) -> tuple[bytes, bytes]:
    text, csv = FILES[base], CSV
    if level == "structure":
        tree = copy.deepcopy(TREES[base])
        for change in changes:
            mutate_tree(tree, *change)
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        return yaml.dump(tree, Dumper=dumper, allow_unicode=True, default_flow_style=None).encode(), csv
    for how, *rest in changes:
        if level == "bytes":
            text = mutate_bytes(text, how, *rest)
        elif level == "tokens":
            text = mutate_tokens(text, how, *rest)
        else:
            text = FILES[0]
            csv = (mutate_bytes if how % 2 else mutate_tokens)(csv, how, *rest)
    return text, csv


def assert_sound(made: model.Testbed) -> None:
    names = [node.name for node in made.nodes]
    assert len(set(names)) == len(names) > 0
    assert all(
        node_name(name) == name and node_name(node.site) for name, node in zip(names, made.nodes, strict=True)
    )
    assert [node.role for node in made.nodes].count(Role.control) == 1
    if made.kind == "virtual":
        assert made.cpu_cores <= CORES * (1 + 1e-6)
        assert sum(node.memory_bytes or 0 for node in made.nodes) <= MEMORY * (1 + 1e-6)
        assert all(
            node.cpu_cores is None or node.cpu_cores >= LEAST_CORES * (1 - 1e-6) for node in made.nodes
        )
    assert made.latencies.nodes == tuple(names)
    for _, _, path in made.latencies.paths:
        assert math.isfinite(path.rtt_ms)
        assert 0 <= path.jitter_ms <= path.rtt_ms
        assert 0 <= path.loss <= 1
    times = [change.at_s for change in made.schedule]
    assert times == sorted(times)
    assert all(change.a in names and change.b in names and change.a != change.b for change in made.schedule)
    assert 0 < made.tolerance_ms < math.inf


def assert_sentences(refusal: FogError) -> None:
    assert refusal.exit_code == BAD_INPUT
    for line in str(refusal).split("\n"):
        assert line.isprintable(), line
        assert 10 < len(line) < 1000
        assert line.startswith("/"), line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fuzz")
    (made / "latencies.csv").write_bytes(CSV)
    return made


@settings(
    max_examples=5000,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(recipes)
def test_a_mutated_testbed_is_refused_in_sentences_or_sound(folder: Path, recipe: bytes) -> None:
    text, csv = mutated(*decoded(recipe))
    file = folder / "testbed.yaml"
    if csv != CSV:
        (folder / "latencies.csv").write_bytes(csv)
    try:
        made = testbed.build(source.parse(source.decode(text, str(file)), str(file)), CORES, MEMORY, BOARDS)
    except FogError as refusal:
        assert_sentences(refusal)
    else:
        assert_sound(made)
    finally:
        if csv != CSV:
            (folder / "latencies.csv").write_bytes(CSV)


@pytest.mark.parametrize("text", FILES)
def test_the_fuzzed_files_are_good_to_start_with(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "testbed.yaml").write_bytes(text)
    (tmp_path / "latencies.csv").write_bytes(CSV)
    assert_sound(testbed.load(tmp_path / "testbed.yaml", CORES, MEMORY, BOARDS))
