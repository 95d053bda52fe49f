"""What a run's manifest says of boards, what it warns of, and when it is refused."""

from __future__ import annotations

import dataclasses

import pytest

from fogctl.errors import FogError
from fogctl.kube.board_facts import BoardFacts
from fogctl.kube.nodes import NodeState
from fogctl.pi.facts import parse
from fogctl.pi.findings import findings, unreachable

PROBED = """\
hostname=pi1
model=Raspberry Pi 4 Model B Rev 1.4
machine=aarch64
kernel=6.6.31+rpt-rpi-v8
os=Debian GNU/Linux 12
clock_synchronised=no
throttled=throttled=0x50005
started=1000.5
ended=1001.5
"""
READY = NodeState("pi1", True, "", False, 3.9, 900, system={"kubeletVersion": "v1.34.1+k3s1"})


def facts(**states: NodeState) -> BoardFacts:
    probed = parse("pi1", PROBED, 1000.4, 1001.6)
    silent = unreachable("pi2", "it does not answer")
    return BoardFacts(("pi1", "pi2"), states, {"pi1": probed}, (silent, *findings([probed])))


def test_the_manifest_has_what_the_board_and_what_the_cluster_say() -> None:
    told = facts(pi1=READY).manifest()
    assert told["pi2"] == {"ready": False}, "nobody knows anything of it"
    board = told["pi1"]
    assert board["board"] == "Raspberry Pi 4 Model B Rev 1.4"
    assert (board["kernel"], board["kubeletVersion"]) == ("6.6.31+rpt-rpi-v8", "v1.34.1+k3s1")
    assert (board["throttled"], board["clock_synchronised"]) == ("0x50005", False)
    assert board["clock_offset_s"] == pytest.approx(0.0, abs=0.1)


def test_what_may_spoil_a_run_is_warned_of() -> None:
    said = "\n".join(facts(pi1=READY).warnings())
    assert "pi2: it does not answer" in said
    assert "pi1: at this moment the supply voltage is too low and it is throttled" in said
    assert "clock" in said
    assert "disk" not in said, "findings that do not touch a run are for fogctl pi check"


def test_a_run_needs_every_node() -> None:
    both = facts(pi1=READY, pi2=dataclasses.replace(READY, name="pi2"))
    both.require_ready()
    with pytest.raises(FogError, match="node pi2 is not in the cluster") as missing:
        facts(pi1=READY).require_ready()
    lost = dataclasses.replace(READY, name="pi2", ready=False, why="Kubelet stopped posting node status")
    with pytest.raises(FogError, match="pi2 does not answer: Kubelet stopped") as silent:
        facts(pi1=READY, pi2=lost).require_ready()
    assert missing.value.exit_code == silent.value.exit_code == 3
