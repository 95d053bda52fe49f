# ruff: noqa: E501 — the sentences are quoted whole
"""testbed.yaml: what it means, and the sentence for each way it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl.config import boards, source, testbed
from fogctl.config.shares import Capacity
from fogctl.errors import BAD_INPUT, FogError
from fogctl.testbed import model
from fogctl.testbed.model import Kind, Role

BOARDS = boards.load_all()
GOOD = """\
name: city
kind: virtual
scale: {cpu: 4%, memory: 10%}
tolerance: 3ms
nodes:
  - {name: cloud, role: control, site: dc, board: host}
  - {name: broker, role: broker, site: dc, board: host}
  - {name: "pi[1-10]", role: edge, site: north, board: rpi4-4g}
latency:
  default: {rtt: 5ms}
  sites:
    - {between: [north, dc], rtt: 20ms, jitter: 2ms, loss: 0.1%, rate: 100mbit}
  links:
    - {between: [pi1, pi2], rtt: 80ms}
schedule:
  - {at: 60s, between: [pi1, pi2], rtt: 300ms}
"""


def load(text: str, cores: float = 2, memory: float = 64 << 30) -> model.Testbed:
    return testbed.build(source.parse(text, "testbed.yaml"), cores, memory, BOARDS)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def sentences(text: str, **host: float) -> list[str]:
    with pytest.raises(FogError) as caught:
        load(text, **host)
    assert caught.value.exit_code == BAD_INPUT
    return str(caught.value).split("\n")


def sentence(text: str, **host: float) -> str:
    found = sentences(text, **host)
    assert len(found) == 1, found
    return found[0]


def test_a_testbed_has_its_nodes_with_ranges_expanded() -> None:
    made = load(GOOD)
    assert (made.name, made.kind, made.tolerance_ms) == ("city", Kind.virtual, 3.0)
    assert [node.name for node in made.nodes] == [
        "cloud",
        "broker",
        *(f"pi{number}" for number in range(1, 11)),
    ]
    assert made.node("cloud").role is Role.control
    assert made.node("pi3").site == "north"


def test_a_node_gets_its_board_times_the_scale() -> None:
    pi = load(GOOD).node("pi1")
    assert pi.cpu_cores == pytest.approx(4 * 1.0 * 0.04)  # four cores, speed 1 by definition
    assert pi.memory_bytes == (4 << 30) // 10


def test_board_host_is_not_limited() -> None:
    cloud = load(GOOD).node("cloud")
    assert cloud.cpu_cores is None
    assert cloud.memory_bytes is None


def test_slow_cores_of_a_board_count_for_less() -> None:
    made = load(changed("rpi4-4g", "rock5b-8g").replace("cpu: 4%", "cpu: 1%"))
    assert made.node("pi1").cpu_cores == pytest.approx(0.01 * (4 * 1.8 + 4 * 0.8))


def test_cpu_and_memory_of_a_node_can_be_set_directly() -> None:
    made = load(changed("board: rpi4-4g", "board: rpi4-4g, cpu: 15%, memory: 300MiB"))
    assert made.node("pi1").cpu_cores == pytest.approx(0.15)
    assert made.node("pi1").memory_bytes == 300 << 20


def test_a_range_keeps_its_zeros() -> None:
    made = load(changed('"pi[1-10]"', '"pi[08-10]"').replace("[pi1, pi2]", "[pi08, pi10]"))
    assert [node.name for node in made.nodes][2:] == ["pi08", "pi09", "pi10"]


def test_a_link_wins_over_a_site_over_the_default_field_by_field() -> None:
    made = load(changed("{between: [pi1, pi2], rtt: 80ms}", "{between: [cloud, pi2], rtt: 80ms}"))
    assert made.latencies.rtt_ms("pi1", "pi3") == 5
    assert made.latencies.rtt_ms("cloud", "pi1") == 20
    path = made.latencies.path("cloud", "pi2")
    assert (path.rtt_ms, path.jitter_ms, path.loss, path.rate_bit_s) == (80, 2, 0.001, 1e8)


def test_rate_unlimited_lifts_a_weaker_limit() -> None:
    made = load(changed("{between: [pi1, pi2], rtt: 80ms}", "{between: [cloud, pi2], rate: unlimited}"))
    assert made.latencies.path("cloud", "pi2").rate_bit_s is None
    assert made.latencies.rtt_ms("cloud", "pi2") == 20


def test_within_a_site_is_the_site_with_itself() -> None:
    made = load(changed("[north, dc]", "[north, north]"))
    assert made.latencies.rtt_ms("pi3", "pi4") == 20
    assert made.latencies.rtt_ms("cloud", "pi4") == 5
    assert made.latencies.rtt_ms("pi1", "pi2") == 80


def test_a_scheduled_change_keeps_what_it_does_not_mention() -> None:
    text = changed(
        "  - {at: 60s, between: [pi1, pi2], rtt: 300ms}",
        "  - {at: 1s, between: [cloud, pi1], rtt: 100ms}\n  - {at: 2s, between: [pi1, cloud], loss: 5%}",
    )
    first, second = load(text).schedule
    assert (first.at_s, first.path.rtt_ms, first.path.jitter_ms, first.path.rate_bit_s) == (1, 100, 2, 1e8)
    assert (second.path.rtt_ms, second.path.loss) == (100, 0.05)


def test_a_schedule_can_change_two_sites_at_once() -> None:
    made = load(changed("between: [pi1, pi2], rtt: 300ms", "sites: [north, dc], rtt: 300ms"))
    assert len(made.schedule) == 20
    assert {change.path.rtt_ms for change in made.schedule} == {300}


def test_a_sim_needs_no_host_but_boards_for_its_edge() -> None:
    made = load(changed("kind: virtual", "kind: sim").replace("cpu: 4%", "cpu: 100%"))
    assert made.node("pi1").cpu_cores == 4
    text = changed("kind: virtual", "kind: sim").replace("board: rpi4-4g", "board: host")
    assert "cannot be (name a board" in sentence(text)


def test_real_boards_are_limited_by_themselves() -> None:
    made = load(GOOD.replace("kind: virtual", "kind: k3s").replace("board: host", "board: rpi4-8g"))
    assert {node.cpu_cores for node in made.nodes} == {None}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("jitter: 2ms", "jiter: 2ms", 'testbed.yaml:12: latency.sites[0].jiter: unknown key "jiter" (did you mean "jitter"?'),
        ("scale:", "scael:", 'testbed.yaml:3: scael: unknown key "scael" (did you mean "scale"?'),
        ("rtt: 80ms", "rtt: 80", "testbed.yaml:14: latency.links[0].rtt: the unit is missing (did you mean 80ms?)"),
        ("rtt: 80ms", "rtt: -80ms", 'testbed.yaml:14: latency.links[0].rtt: "-80ms" is negative'),
        ("rtt: 80ms", "rtt: nan", "testbed.yaml:14: latency.links[0].rtt: must be a finite time"),
        ("rtt: 80ms", "rtt: ~", "testbed.yaml:14: latency.links[0]: changes nothing"),
        ("loss: 0.1%", "loss: 101%", "testbed.yaml:12: latency.sites[0].loss:"),
        ("jitter: 2ms", "jitter: 21ms", "testbed.yaml:12: latency.sites[0]: between cloud and pi1 the jitter (21 ms)"),
        ("name: broker", "name: pi3", 'nodes[2].name: the node "pi3" is given twice, first in nodes[1]'),
        ("rpi4-4g", "rpi4-3g", 'testbed.yaml:8: nodes[2].board: unknown board "rpi4-3g" (did you mean "rpi4-4g"? see: fogctl board list)'),
        ("[pi1, pi2], rtt: 80", "[pi1, pj2], rtt: 80", 'testbed.yaml:14: latency.links[0].between[1]: unknown node "pj2" (did you mean "pi2"?'),
        ("[pi1, pi2], rtt: 80", "[pi1, pi1], rtt: 80", "testbed.yaml:14: latency.links[0].between: a link needs two nodes"),
        ("[pi1, pi2], rtt: 80", "[pi1], rtt: 80", "testbed.yaml:14: latency.links[0].between: must name two ends"),
        ("[north, dc]", "[nort, dc]", 'testbed.yaml:12: latency.sites[0].between[0]: unknown site "nort" (did you mean "north"?'),
        ("role: control", "role: edge", "testbed.yaml:5: nodes: no node has the role control"),
        ("role: broker", "role: control", "testbed.yaml:7: nodes[1].role: 2 nodes have the role control"),
        ("role: broker", "role: brokr", 'testbed.yaml:7: nodes[1].role: "brokr" is not possible here (did you mean "broker"?'),
        ("name: broker", "name: Broker_1", 'testbed.yaml:7: nodes[1].name: "Broker_1" is not a host name'),
        ("name: broker", "name: a-name-that-is-too-long", "is not a host name"),
        ("name: broker", "name: switch", '"switch" is taken'),
        ("name: broker", "name: pi1-mgmt", '"pi1-mgmt" is taken'),
        ("pi[1-10]", "pi[10-1]", "counts backwards (write pi[1-10])"),
        ("pi[1-10]", "pi[1-9999]", "9,999 nodes, more than the 1,023"),
        ("pi[1-10]", "pi[1-x]", "is not a range of nodes"),
        ("name: city", "name: My-City", 'testbed.yaml:1: name: "My-City" cannot name a testbed: use 1 to 20 lower-case letters and digits, a letter first (did you mean "mycity"?)'),
        ("name: city\n", "", "testbed.yaml:1: name: is missing (add name: city)"),
        ("kind: virtual", "kind: vm", 'testbed.yaml:2: kind: "vm" is not possible here'),
        ("at: 60s", "at: 60", "testbed.yaml:16: schedule[0].at: the unit is missing (did you mean 60s?)"),
        ("at: 60s, between: [pi1, pi2]", "at: 60s, between: [pi1, pi99]", 'testbed.yaml:16: schedule[0].between[1]: unknown node "pi99"'),
        ("at: 60s, between: [pi1, pi2]", "at: 60s", "testbed.yaml:16: schedule[0]: must name either two nodes or two sites"),
        ("nodes:", "nodes: 5\nnodez:", "nodes: must be a list"),
        ("latency:\n", "latency: [1]\nlatenzy:\n", "latency: must be a mapping"),
        ("tolerance: 3ms", "tolerance: 0ms", "testbed.yaml:4: tolerance: must be more than 0"),
        ("board: host", "board: 4", "testbed.yaml:6: nodes[0].board: must be text"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_key_and_fix(old: str, new: str, said: str) -> None:
    assert any(said in found for found in sentences(changed(old, new))), sentences(changed(old, new))


def test_every_mistake_is_told_in_the_order_of_the_file() -> None:
    found = sentences(
        changed("rtt: 80ms", "rtt: 80").replace("scale:", "scael:").replace("at: 60s", "at: -1s")
    )
    assert [line.split(": ")[1] for line in found] == ["scael", "latency.links[0].rtt", "schedule[0].at"]


def test_the_error_carries_the_place_of_the_first_mistake() -> None:
    with pytest.raises(FogError) as caught:
        load(changed("rtt: 80ms", "rtt: 80").replace("scale:", "scael:"))
    assert (caught.value.file, caught.value.line, caught.value.key) == ("testbed.yaml", 3, "scael")


def test_a_pair_given_twice_is_refused_in_either_order() -> None:
    text = changed(
        "  links:\n",
        "    - {between: [dc, north], rtt: 1ms}\n  links:\n    - {between: [pi2, pi1], rtt: 1ms}\n",
    )
    first, second = sentences(text)
    assert "latency.sites[1].between: dc–north is given twice, first in sites[0]" in first
    assert "latency.links[1].between: pi1–pi2 is given twice" in second


def test_a_schedule_out_of_order_is_refused() -> None:
    text = GOOD + "  - {at: 10s, between: [pi1, pi2], rtt: 1ms}\n"
    assert "testbed.yaml:17: schedule[1].at: comes before the entry above it" in sentence(text)


def test_a_change_made_twice_at_one_moment_is_refused() -> None:
    text = GOOD + "  - {at: 60s, between: [pi2, pi1], rtt: 1ms}\n"
    assert "changed twice at 60 s, first in schedule[0]" in sentence(text)


def test_shares_over_the_host_name_a_scale_that_fits() -> None:
    said = sentence(changed("cpu: 4%", "cpu: 6%"))
    assert "testbed.yaml:3: scale.cpu: the nodes ask for 2.4 cores in all, but the host has 2 cores" in said
    assert "lower scale.cpu to 4%" in said
    load(changed("cpu: 4%", "cpu: 4%"))


def test_shares_that_fill_the_host_exactly_are_accepted() -> None:
    assert load(changed("cpu: 4%", "cpu: 5%")).cpu_cores == pytest.approx(2)


def test_fixed_shares_over_the_host_are_refused_without_a_scale() -> None:
    said = sentence(changed("board: rpi4-4g", "board: rpi4-4g, cpu: 50%"))
    assert "nodes: the nodes ask for 5 cores" in said
    assert "lower the cpu: of the nodes that have one" in said


def test_memory_over_the_host_names_a_scale_that_fits() -> None:
    said = sentence(GOOD, memory=2 << 30)
    assert (
        "scale.memory: the nodes ask for 4GiB in all, but the host has 2GiB (lower scale.memory to 4%" in said
    )
    load(changed("memory: 10%", "memory: 4%"), memory=2 << 30)


def test_a_share_too_small_for_the_kernel_is_refused_with_the_least_that_works() -> None:
    said = sentence(changed("cpu: 4%", "cpu: 0.1%"))
    assert "testbed.yaml:8: nodes[2]: pi1 would get 0.4% of a core" in said
    assert "raise scale.cpu to 0.25% or more" in said
    load(changed("cpu: 4%", "cpu: 0.25%"))


def test_more_nodes_than_a_bridge_has_ports_are_refused() -> None:
    text = changed('"pi[1-10]"', '"pi[1-1000]"').replace(
        "latency:", '  - {name: "q[1-100]", board: rpi4-2g}\nlatency:'
    )
    assert "1,102 nodes are more than the 1,023 ports of a Linux bridge" in sentence(text)


def test_the_host_is_this_machine_unless_said(tmp_path: Path) -> None:
    cores = round(Capacity.of_this_host().cores)
    file = tmp_path / "testbed.yaml"
    file.write_text(f"name: x\nscale: {{cpu: {cores * 100 // 4 + 100}%, memory: 1%}}\nnodes:\n"
                    "  - {name: a, role: control, board: rpi4-2g}\n")  # fmt: skip
    with pytest.raises(FogError, match=f"the host has {cores} cores"):
        testbed.load(file)


# The matrix


def with_matrix(tmp_path: Path, csv: str, rules: str = "matrix: m.csv") -> Path:
    (tmp_path / "m.csv").write_text(csv)
    file = tmp_path / "testbed.yaml"
    file.write_text(
        "name: x\nkind: sim\nnodes:\n  - {name: a, role: control, board: rpi4-2g}\n"
        f'  - {{name: "pi[1-2]", board: rpi4-2g}}\nlatency:\n  {rules}\n'
    )
    return file


SQUARE = ",a,pi1,pi2\na,0,10,20\npi1,10,0,30\npi2,20,30,0\n"


def test_a_matrix_is_read_from_beside_the_testbed(tmp_path: Path) -> None:
    made = testbed.load(with_matrix(tmp_path, SQUARE))
    assert made.latencies.rtt_ms("pi1", "pi2") == 30


def test_sites_and_links_win_over_the_matrix_and_its_jitter_comes_from_the_default(tmp_path: Path) -> None:
    rules = "matrix: m.csv\n  default: {rtt: 99ms, jitter: 1ms}\n  links: [{between: [pi1, pi2], rtt: 7ms}]"
    made = testbed.load(with_matrix(tmp_path, SQUARE, rules))
    assert made.latencies.path("pi1", "pi2").rtt_ms == 7
    assert (made.latencies.path("a", "pi1").rtt_ms, made.latencies.path("a", "pi1").jitter_ms) == (10, 1)


@pytest.mark.parametrize(
    ("csv", "line", "said"),
    [
        (SQUARE.replace("pi1,10", "pi1,11"), 2, "asymmetric"),
        (SQUARE.replace("pi1,10,0,30", "pi1,10,0,-30"), 3, "negative"),
        (SQUARE.replace("pi1,10,0,30", "pi1,10,0,x"), 3, "not a time"),
        (SQUARE.replace("pi1,10,0,30", "pi1,10,0"), 3, "columns"),
        (SQUARE.replace("pi2", "pi3"), 4, 'unknown node "pi3" (did you mean "pi2"?'),
        (",a,pi1\na,0,1\npi1,1,0\n", 1, 'the node "pi2" is not in the matrix'),
        ("", None, "empty"),
        ("\x00\x01", 1, "not text"),
    ],
)
def test_a_bad_matrix_is_named_with_its_own_file_and_line(
    csv: str, line: int | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises(FogError) as caught:
        testbed.load(with_matrix(tmp_path, csv))
    assert said in str(caught.value)
    assert caught.value.file == str(tmp_path / "m.csv")
    assert caught.value.exit_code == BAD_INPUT
    if line is not None:
        assert caught.value.line == line


def test_a_matrix_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = with_matrix(tmp_path, SQUARE, "matrix: nowhere.csv")
    with pytest.raises(FogError, match=r"nowhere\.csv: no such file"):
        testbed.load(file)
