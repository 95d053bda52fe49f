"""The example testbeds: they load, they fit, and they can be refitted."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fogctl.config import boards, shipped, testbed
from fogctl.config.shares import HEAD_ROOM, Capacity
from fogctl.config.shipped import Example
from fogctl.errors import FogError
from fogctl.testbed import model
from fogctl.testbed.model import Kind, Role

BOARDS = boards.load_all()
SMALL = Capacity(2, 8 << 30)


def shipped_testbed(example: Example, cores: float = 2) -> model.Testbed:
    return testbed.load(shipped.folder(example) / "testbed.yaml", cores, 8 << 30, BOARDS)


def drafted(tmp_path: Path, example: Example, host: Capacity = SMALL, **asked: object) -> model.Testbed:
    draft = shipped.draft(example, host, BOARDS, **asked)  # type: ignore[arg-type]
    for name, text in draft.files.items():
        (tmp_path / name).write_text(text)
    return testbed.load(tmp_path / "testbed.yaml", host.cores, host.memory_bytes, BOARDS)


@pytest.mark.parametrize("example", Example)
def test_an_example_fits_two_cores_with_head_room(example: Example) -> None:
    made = shipped_testbed(example)
    assert made.name == example.value
    assert 0.5 < made.cpu_cores <= 2 * HEAD_ROOM + 1e-9


def test_gesscale_is_ten_pi_4_with_2_gb_and_0_to_300_ms() -> None:
    made = shipped_testbed(Example.gesscale)
    pis = [node.name for node in made.nodes if node.role is Role.edge]
    assert len(pis) == 10
    assert {made.node(pi).board for pi in pis} == {"rpi4-2g"}
    assert [node.role for node in made.nodes if node.role is not Role.edge] == [Role.control, Role.broker]
    assert made.latencies.max_rtt_ms(pis) == 300
    assert made.latencies.rtt_ms("broker", pis[0]) == 0


def test_gesscale_has_no_detour_shorter_than_the_direct_way() -> None:
    rtt_ms = shipped_testbed(Example.gesscale).latencies.rtt_ms
    names = [f"pi{number}" for number in range(1, 11)]
    assert all(rtt_ms(a, c) <= rtt_ms(a, b) + rtt_ms(b, c) for a in names for b in names for c in names)


def test_the_shipped_matrix_is_the_formula_in_its_comment() -> None:
    stream = io.StringIO()
    shipped.spread(10).to_csv(stream)
    assert (shipped.folder(Example.gesscale) / "latencies.csv").read_text() == stream.getvalue()
    for number in range(1, 11):
        assert shipped.spread(10).rtt_ms("broker", f"pi{number}") == round(300 * ((number - 1) / 9) ** 1.5)


def test_city_has_three_sites_with_impairments_and_a_schedule() -> None:
    made = shipped_testbed(Example.city)
    assert {node.site for node in made.nodes} == {"dc", "north", "harbour"}
    path = made.latencies.path("broker", "harbour1")
    assert path.jitter_ms > 0
    assert path.loss > 0
    assert path.rate_bit_s is not None
    assert made.latencies.path("north1", "harbour1").rate_bit_s == 20e6
    assert len(made.schedule) == 2 * 2 * 4


def test_lab_has_no_latency() -> None:
    made = shipped_testbed(Example.lab)
    assert made.latencies.paths == ()
    assert made.schedule == ()


@pytest.mark.parametrize("example", Example)
@pytest.mark.parametrize("host", [Capacity(1, 2 << 30), SMALL, Capacity(64, 256 << 30)])
@pytest.mark.parametrize("nodes", [2, 3, 11, 40])
def test_a_draft_fits_the_host_it_was_made_for(
    example: Example, host: Capacity, nodes: int, tmp_path: Path
) -> None:
    made = drafted(tmp_path, example, host, nodes=nodes, name="mine")
    assert made.name == "mine"
    assert len([node for node in made.nodes if node.role is Role.edge]) == nodes
    assert made.cpu_cores <= host.cores * HEAD_ROOM + 1e-9
    assert made.cpu_cores > host.cores * HEAD_ROOM * 0.85 or made.node(made.nodes[-1].name).cpu_cores in (
        4.0,
        2.4,
    )


def test_a_draft_of_a_model_has_whole_boards(tmp_path: Path) -> None:
    made = drafted(tmp_path, Example.gesscale, kind=Kind.sim, nodes=200)
    assert made.kind is Kind.sim
    assert made.node("pi200").cpu_cores == 4
    assert made.latencies.rtt_ms("pi1", "pi200") == 300


def test_more_nodes_than_the_host_can_hold_are_refused_with_the_number_that_fits(tmp_path: Path) -> None:
    with pytest.raises(FogError, match=r"use --nodes 160 or fewer"):
        drafted(tmp_path, Example.lab, nodes=500)
    drafted(tmp_path, Example.lab, Capacity(2, 64 << 30), nodes=160)
