"""Two guests with a cable between them: kernel netem on a real link from machine to machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vm.guest import Guest, Plug
from tests.vm.image import Image

ADDRESSES = {"north": "10.98.0.1", "south": "10.98.0.2"}


@pytest.fixture(scope="module")
def pair(
    image: Image, say: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Guest, Guest]]:
    """Both booted side by side, an address on each end of the cable."""
    folder: Path = tmp_path_factory.mktemp("cable")
    plugs = Plug.cable(folder)
    guests = [
        Guest(image, name, cpus=1, memory_mib=512, plugs=[plug])
        for name, plug in zip(ADDRESSES, plugs, strict=True)
    ]
    try:
        for guest in guests:
            guest.start()
        for guest in guests:
            guest.wait_until_up()
            guest.run(f"ip address add {ADDRESSES[guest.name]}/24 dev eth1 && ip link set eth1 up")
        say(f"two guests: up after {max(guest.boot_seconds for guest in guests):.0f} s")
        yield guests[0], guests[1]
    finally:
        for guest in guests:
            guest.stop()


def least_rtt_ms(guest: Guest, address: str) -> float:
    """The smallest round trip of a few: the rest is the emulator's own scheduling."""
    said = guest.run(f"ping -q -c 20 -i 0.3 {address}").stdout
    return float(said.rsplit("=", 1)[1].split("/")[0])


def test_guests_have_names_of_their_own(pair: tuple[Guest, Guest]) -> None:
    assert [guest.run(["hostname"]).stdout.strip() for guest in pair] == list(ADDRESSES)


def test_netem_between_guests_adds_what_was_asked_to_each_direction(pair: tuple[Guest, Guest]) -> None:
    north, south = pair
    before = least_rtt_ms(north, ADDRESSES["south"])
    for guest in pair:
        guest.run("tc qdisc add dev eth1 root netem delay 50ms")
    assert least_rtt_ms(north, ADDRESSES["south"]) - before == pytest.approx(100, abs=15)
    assert least_rtt_ms(south, ADDRESSES["north"]) - before == pytest.approx(100, abs=15)


def test_a_pulled_cable_stops_the_data_link_but_not_the_way_in(pair: tuple[Guest, Guest]) -> None:
    north, _ = pair
    north.monitor("set_link plug0 off")
    try:
        assert north.run(f"ping -q -c 2 -W 1 {ADDRESSES['south']}", check=False).code == 1
    finally:
        north.monitor("set_link plug0 on")
