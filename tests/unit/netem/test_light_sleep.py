"""The wish that CPUs do not sleep deeply: made once, taken back, and no trouble where it cannot be made."""

import struct
from pathlib import Path

from fognetem.light_sleep import LightSleep


def test_the_wish_is_no_latency_at_all_and_can_be_made_again(tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.touch()
    sleep = LightSleep(str(device))
    assert not sleep.wished
    for _ in range(2):
        sleep.begin()
        sleep.begin()
        assert sleep.wished
        assert struct.unpack("=i", device.read_bytes()) == (0,)
        sleep.end()
        sleep.end()
        assert not sleep.wished


def test_without_the_device_nothing_happens(tmp_path: Path) -> None:
    sleep = LightSleep(str(tmp_path / "none"))
    sleep.begin()
    assert not sleep.wished
    sleep.end()
