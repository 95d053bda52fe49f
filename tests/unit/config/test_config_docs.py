"""What docs/configuration.md and docs/boards.md show is true."""

from __future__ import annotations

import re
from pathlib import Path

from fogctl import data
from fogctl.config import board_table, boards, source, testbed
from fogctl.config.boards import BoardFile
from fogctl.config.kafka_section import KafkaEntry, SaslEntry, TlsEntry
from fogctl.config.testbed_file import BetweenEntry, ChangeEntry, LatencyEntry, NodeEntry, TestbedFile
from fogctl.config.validate import validate

DOCS = Path(__file__).resolve().parents[3] / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
BOARDS = (DOCS / "boards.md").read_text(encoding="utf-8")


def block(text: str, language: str) -> str:
    found = re.search(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return "\n".join(line.removeprefix(found[1]) for line in found[2].splitlines()) + "\n"


def test_the_table_of_boards_is_fresh() -> None:
    shipped = boards.load_all([data.path("hardware")])
    said = "run: python -m fogctl.config.board_table docs/boards.md"
    assert board_table.replaced(BOARDS, shipped.values()) == BOARDS, said


def test_the_board_in_the_docs_is_a_good_profile() -> None:
    text = block(BOARDS, "yaml")
    made = validate(source.parse(text, "docs/boards.md"), BoardFile)
    assert made.title in text


def test_the_testbed_in_the_docs_loads_and_means_what_the_docs_say() -> None:
    made = testbed.build(source.parse(block(CONFIGURATION, "yaml"), "docs/configuration.md"), 2, 8 << 30)
    assert made.latencies.rtt_ms("pi1", "pi2") == 80
    assert made.latencies.path("cloud", "old").jitter_ms == 2
    assert made.node("pi1").cpu_cores == 0.16


def test_the_matrix_in_the_docs_is_a_good_matrix(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(block(CONFIGURATION, "csv"))
    file = tmp_path / "testbed.yaml"
    file.write_text(
        "name: x\nkind: sim\nlatency: {matrix: m.csv}\nnodes:\n"
        '  - {name: cloud, role: control, board: host}\n  - {name: "pi[1-2]", board: rpi4-2g}\n'
    )
    assert testbed.load(file).latencies.rtt_ms("pi1", "pi2") == 80


def test_every_key_is_explained() -> None:
    sections = (
        TestbedFile,
        NodeEntry,
        LatencyEntry,
        BetweenEntry,
        ChangeEntry,
        KafkaEntry,
        TlsEntry,
        SaslEntry,
    )
    for model in sections:
        for key in model.model_fields:
            assert f"`{key}`" in CONFIGURATION, f"{key} of {model.__name__}"
