"""The ledger: what was written is read back, wherever it is torn; a reboot voids what the kernel held."""

from __future__ import annotations

from pathlib import Path

import fognetem
import pytest
from fognetem import Endpoint, LatencyMatrix
from fognetem import Path as NetworkPath
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.errors import FogError
from fogctl.testbed.latency import ALL_STEP_TYPES
from fogctl.testbed.ledger import Ledger, by_name, decode, encode
from fogctl.testbed.steps import STEP_TYPES, AddGroup, AddNamespace, Step, WriteFile

ANY_STEP = st.one_of([st.builds(kind) for kind in STEP_TYPES])


def injected() -> list[Step]:
    matrix = LatencyMatrix(("a", "b"), (("a", "b", NetworkPath(80, 8, 0.01, 1e6)),))
    other = matrix.with_path("a", "b", NetworkPath(20))
    ends = (Endpoint("a", "fog-x-a", "data0", "10.77.0.1"), Endpoint("b", "fog-x-b", "data0", "10.77.0.2"))
    steps: list[Step] = []
    for backend in (fognetem.Kernel(ends), fognetem.UserSpace(ends, "/run/x")):
        steps += [*fognetem.plan(matrix, backend), *fognetem.difference(matrix, other, backend)]
    return steps


def through_json(step: Step) -> Step:
    import json

    return decode(json.loads(json.dumps(encode(step))), by_name(ALL_STEP_TYPES))


@given(ANY_STEP)
def test_a_step_survives_the_way_through_json(step: Step) -> None:
    assert through_json(step) == step


def test_every_latency_step_survives_the_way_through_json() -> None:
    steps = injected()
    assert {type(step) for step in steps} == set(fognetem.STEP_TYPES)
    assert [through_json(step) for step in steps] == steps


def test_step_classes_have_names_of_their_own() -> None:
    assert len({kind.__name__ for kind in ALL_STEP_TYPES}) == len(ALL_STEP_TYPES)


def ledger(file: Path, boot: str = "boot-1") -> Ledger:
    return Ledger(file, ALL_STEP_TYPES, boot)


def test_what_was_recorded_is_there_again_in_order(tmp_path: Path) -> None:
    steps = [AddNamespace("fog-a"), AddGroup("/cg/fog-a", ("cpu",)), *injected()]
    first = ledger(tmp_path / "ledger")
    for step in steps:
        first.record(step)
    assert ledger(tmp_path / "ledger").steps == tuple(steps)


def test_what_was_forgotten_is_gone_and_can_come_again(tmp_path: Path) -> None:
    first = ledger(tmp_path / "ledger")
    for name in ("fog-a", "fog-b"):
        first.record(AddNamespace(name))
    first.forget(AddNamespace("fog-a"))
    assert ledger(tmp_path / "ledger").steps == (AddNamespace("fog-b"),)
    first.record(AddNamespace("fog-a"))
    assert ledger(tmp_path / "ledger").steps == (AddNamespace("fog-b"), AddNamespace("fog-a"))


def test_recording_twice_writes_once(tmp_path: Path) -> None:
    first = ledger(tmp_path / "ledger")
    first.record(AddNamespace("fog-a"))
    size = (tmp_path / "ledger").stat().st_size
    first.record(AddNamespace("fog-a"))
    assert (tmp_path / "ledger").stat().st_size == size


@settings(max_examples=60)
@given(st.data())
def test_wherever_the_file_is_torn_the_whole_lines_count(data: st.DataObject) -> None:
    import tempfile

    steps = [AddNamespace(f"fog-{number}") for number in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ledger")
        whole = ledger(file)
        for step in steps:
            whole.record(step)
        whole.close()
        raw = file.read_bytes()
        cut = data.draw(st.integers(0, len(raw)))
        file.write_bytes(raw[:cut])
        kept = max(0, raw[:cut].count(b"\n") - 1)  # the first line names the boot
        torn = ledger(file)
        assert torn.steps == tuple(steps[:kept])
        torn.record(AddNamespace("fog-after"))
        torn.close()
        assert ledger(file).steps == (*steps[:kept], AddNamespace("fog-after"))


def test_a_reboot_voids_what_the_kernel_held_and_keeps_files(tmp_path: Path) -> None:
    first = ledger(tmp_path / "ledger")
    first.record(AddNamespace("fog-a"))
    first.record(WriteFile("/etc/netns/fog-a/hosts", "127.0.0.1 localhost\n"))
    first.close()
    second = ledger(tmp_path / "ledger", "boot-2")
    assert second.steps == (WriteFile("/etc/netns/fog-a/hosts", "127.0.0.1 localhost\n"),)
    second.record(AddNamespace("fog-b"))
    second.close()
    assert ledger(tmp_path / "ledger", "boot-2").steps == (*second.steps[:1], AddNamespace("fog-b"))
    assert ledger(tmp_path / "ledger", "boot-3").steps == second.steps[:1]


@pytest.mark.parametrize(
    "line", ['{"step": "FlyToTheMoon"}', "nonsense", '{"step": "AddNamespace", "nme": "x"}', "[]"]
)
def test_a_line_of_another_version_is_named_with_file_and_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "ledger"
    first = ledger(file)
    first.record(AddNamespace("fog-a"))
    first.close()
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(FogError) as refused:
        ledger(file)
    assert str(refused.value).startswith(f"{file}:3: ")


def test_a_step_is_on_the_disk_before_record_returns(tmp_path: Path) -> None:
    first = ledger(tmp_path / "ledger")
    first.record(AddNamespace("fog-a"))
    assert b"fog-a" in (tmp_path / "ledger").read_bytes()
