"""What a user means by the words of `fogctl fault`, and the file that remembers the faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl.errors import FogError
from fogctl.runtime import fault_record, fault_targets
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.fault_targets import Target, What

NODES = ["cloud", "broker", "pi1", "pi2"]
SERVICES = [
    "broker",
    "taxi.near.master",
    "taxi.near.driver",
    "taxi.near.executor.pi1",
    "taxi.near.executor.pi2",
    "logs.parse.master",
    "logs.parse.driver",
    "logs.parse.executor.pi1",
]

MEANT = {
    ("pi1",): Target(What.node, "pi1"),
    ("node", "broker"): Target(What.node, "broker"),
    ("broker",): Target(What.broker, "broker"),
    ("delay-line",): Target(What.delay_line, ""),
    ("worker", "pi2"): Target(What.executor, "taxi.near.executor.pi2"),
    ("executor", "logs.parse.pi1"): Target(What.executor, "logs.parse.executor.pi1"),
    ("driver", "taxi.near"): Target(What.driver, "taxi.near.driver"),
    ("driver", "taxi"): Target(What.driver, "taxi.near.driver"),
    ("master", "parse"): Target(What.master, "logs.parse.master"),
}


@pytest.mark.parametrize("words", MEANT)
def test_words_name_one_thing(words: tuple[str, ...]) -> None:
    assert fault_targets.find(words, NODES, SERVICES) == MEANT[words]


REFUSED = {
    ("pi9",): "there is no node pi9",
    ("node", "pi9"): "there is no node pi9",
    ("node",): "which node?",
    ("executor", "pi1"): "which executor?",
    ("worker",): "which executor?",
    ("driver", "nix"): "there is no driver of nix",
    ("bridge",): "no bridge runs here",
    ("broker", "pi1"): "too many words",
    ("pi1", "pi2"): "too many words",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_names_nothing_or_several_things_is_one_sentence_with_the_choices(
    words: tuple[str, ...],
) -> None:
    with pytest.raises(FogError) as refused:
        fault_targets.find(words, NODES, SERVICES)
    assert REFUSED[words] in refused.value.message
    assert refused.value.hint
    assert "\n" not in str(refused.value)


CUT = Fault(Kind.link, ("pi1", "cloud"), 10.0, 40.0, before={"path": {"rtt_ms": 5.0}})
DOWN = Fault(Kind.node, ("pi2",), 11.0)
SLOW = Fault(Kind.slow, ("pi1",), 12.0, before={"share": 1.0}, now={"share": 0.2})
HELD = Fault(Kind.process, ("mqtt.bridge",), 13.0, 20.0)
LINE = Fault(Kind.delay_line, (), 14.0)


def test_faults_are_read_back_as_they_were_written_and_forgotten_one_by_one(tmp_path: Path) -> None:
    assert fault_record.read(tmp_path) == ()
    for fault in (CUT, DOWN, SLOW, HELD, LINE):
        fault_record.add(tmp_path, fault)
    assert fault_record.read(tmp_path) == (CUT, DOWN, SLOW, HELD, LINE)
    fault_record.drop(tmp_path, SLOW)
    fault_record.drop(tmp_path, SLOW)
    assert fault_record.read(tmp_path) == (CUT, DOWN, HELD, LINE)


def test_faults_say_what_they_hold_down() -> None:
    faults = (CUT, DOWN, SLOW, HELD, LINE)
    assert fault_record.down_nodes(faults) == {"pi2"}
    assert fault_record.held_services(faults) == {"mqtt.bridge"}
    assert fault_record.node_share(faults, "pi1") == 0.2
    assert fault_record.node_share(faults, "pi2") == 1.0


def test_a_link_is_the_same_from_either_end() -> None:
    other_way = Fault(Kind.link, ("cloud", "pi1"), 99.0)
    assert CUT.same_place(other_way)
    assert not CUT.same_place(DOWN)
    assert [fault.name for fault in (CUT, DOWN, HELD, LINE)] == [
        "pi1 cloud",
        "pi2",
        "mqtt.bridge",
        "delay-line",
    ]
