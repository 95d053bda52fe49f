from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.testbed.latency import wants_steering
from fogctl.testbed.neighbours import hardware_address
from fogctl.testbed.steering import cpu_mask


@given(st.integers(1, 500))
def test_a_mask_has_one_bit_for_each_cpu(cpus: int) -> None:
    mask = cpu_mask(cpus)
    assert int(mask.replace(",", ""), 16) == 2**cpus - 1
    assert all(len(group) == 8 for group in mask.split(","))


@pytest.mark.parametrize(("backend", "wanted"), [("kernel", True), (None, True), ("userspace", False)])
def test_flows_are_steered_unless_a_delay_line_keeps_their_order(backend: str | None, wanted: bool) -> None:
    assert wants_steering(backend) is wanted


def test_hardware_addresses_are_local_and_differ() -> None:
    made = {hardware_address(f"10.77.{high}.{low}") for high in range(3) for low in range(1, 255)}
    assert len(made) == 3 * 254
    assert all(int(address[:2], 16) & 0b11 == 0b10 for address in made)
