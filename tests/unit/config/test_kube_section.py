"""The cluster of a testbed: what testbed.yaml says about it, and where fogctl remembers it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fogctl.config import testbed
from fogctl.errors import FogError
from fogctl.testbed import state
from fogctl.testbed.model import KubeCluster
from fogctl.testbed.state import Record, from_json, to_json

FILE = """\
name: lab
kind: k3s
nodes:
  - {name: cloud, role: control, board: host}
  - {name: pi1, board: rpi4-4g}
"""


def load(tmp_path: Path, more: str = "") -> object:
    file = tmp_path / "testbed.yaml"
    file.write_text(FILE + more)
    return testbed.load(file)


def test_a_cluster_needs_no_section(tmp_path: Path) -> None:
    assert load(tmp_path).kube == KubeCluster(None, None, "local-path", None)


def test_the_kubeconfig_is_beside_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, "kube: {config: lab.yaml, context: x, storage_class: fast, image: i:1}\n")
    assert found.kube == KubeCluster(str(tmp_path / "lab.yaml"), "x", "fast", "i:1")


def test_the_record_keeps_the_cluster(tmp_path: Path) -> None:
    found = load(tmp_path, "kube: {config: lab.yaml}\n")
    assert from_json(to_json(Record(found, found.latencies, None))).testbed == found


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{storage_class: Fast Disk}", "not the name of a storage class"),
        ("{image: '-x'}", "is not an image"),
        ("{kubeconfig: a}", "config"),
    ],
)
def test_a_wrong_section_is_one_sentence(tmp_path: Path, section: str, said: str) -> None:
    with pytest.raises(FogError, match=said):
        load(tmp_path, f"kube: {section}\n")


def test_without_root_testbeds_are_remembered_in_the_users_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOGCTL_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    system = tmp_path / "system"
    monkeypatch.setattr(state, "DEFAULT_STATE_DIR", str(system))
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    own = tmp_path / "home" / "fogctl"
    assert state.state_dir() == state.writable_state_dir() == own
    (system / "city").mkdir(parents=True)
    assert state.state_dir() == system, "what root has up can be looked at"
    assert state.writable_state_dir() == own
    (own / "lab").mkdir(parents=True)
    assert state.state_dir() == own


def test_root_keeps_the_systems_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOGCTL_STATE_DIR", raising=False)
    monkeypatch.setattr(state, "DEFAULT_STATE_DIR", str(tmp_path / "fogctl"))
    assert state.state_dir() == state.writable_state_dir() == tmp_path / "fogctl"
