"""Board profiles: those that ship are sane, and a bad one is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl import data
from fogctl.config import boards
from fogctl.errors import FogError

SHIPPED = boards.load_all([data.path("hardware")])
PROFILE = (data.path("hardware") / "rpi4.yaml").read_text()


def test_the_boards_people_ask_for_ship() -> None:
    wanted = {"rpi3b-plus", "rpi4-2g", "rpi4-4g", "rpi4-8g", "rpi5-4g", "rpi5-8g", "rpi-zero2w"}
    assert wanted < set(SHIPPED)
    assert len({board.soc for name, board in SHIPPED.items() if not name.startswith("rpi")}) >= 2


def test_a_pi_4_is_the_measure_of_speed() -> None:
    for name in ("rpi4-2g", "rpi4-4g", "rpi4-8g"):
        assert SHIPPED[name].relative_speed == 1.0
        assert SHIPPED[name].capacity == 4.0


def test_memory_is_what_the_name_says() -> None:
    assert {name: board.memory_bytes >> 20 for name, board in SHIPPED.items() if name.startswith("rpi")} == {
        "rpi3b-plus": 1024, "rpi4-2g": 2048, "rpi4-4g": 4096, "rpi4-8g": 8192, "rpi5-4g": 4096,
        "rpi5-8g": 8192, "rpi-zero2w": 512,
    }  # fmt: skip


@pytest.mark.parametrize("board", SHIPPED.values(), ids=list(SHIPPED))
def test_every_figure_of_a_board_is_plausible_and_says_where_it_comes_from(board: boards.Board) -> None:
    assert 1 <= board.cores <= 16
    assert 0.1 <= board.relative_speed <= 10
    assert 5e8 <= board.clock_hz <= 5e9
    assert 1e6 <= board.nic_bit_s <= 1e10
    assert 0 < board.idle_watts < board.load_watts < 60
    assert board.relative_speed * board.cores >= board.capacity > 0
    assert {part.figure for part in board.sources} >= {
        "cpu",
        "nic",
        "power",
        "relative_speed",
        "kernel_cmdline",
    }
    assert board.traps


@pytest.mark.parametrize("name", ["rpi3b-plus", "rpi4-4g", "rpi5-8g", "rpi-zero2w"])
def test_raspberry_pis_need_memory_cgroups_switched_on(name: str) -> None:
    assert "cgroup_enable=memory" in SHIPPED[name].kernel_cmdline


def test_slow_cores_count_in_capacity_and_not_in_speed() -> None:
    board = SHIPPED["rock5b-8g"]
    assert board.cores == 8
    assert board.relative_speed == max(part.relative_speed for part in board.cpu)
    assert board.capacity < board.cores * board.relative_speed


def test_an_unknown_board_names_the_nearest() -> None:
    with pytest.raises(
        FogError, match=r'unknown board "rpi4-3g" \(did you mean "rpi4-4g"\? see: fogctl board list\)'
    ):
        boards.find("rpi4-3g", SHIPPED)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("clock: 1800MHz", "clock: 1800", "cpu[0].clock: the unit is missing (did you mean 1800MHz?)"),
        ("title:", "titel:", 'unknown key "titel" (did you mean "title"?'),
        ("relative_speed: 1.0", "relative_speed: 0", "cpu[0].relative_speed: "),
        ("count: 4", "count: 0", "cpu[0].count: "),
        ("{idle: 2.7W", "{idle: 20W", "power.load: is less than power.idle"),
        ("{rpi4-2g: 2GiB, ", "{host: 2GiB, ", '"host" is not free for a board'),
        ("{rpi4-2g: 2GiB, ", "{Pi 4: 2GiB, ", "memory"),
        ("kind: specification", "kind: guess", '"guess" is not possible here'),
    ],
)
def test_a_bad_profile_is_refused_with_its_key(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in PROFILE
    (tmp_path / "x.yaml").write_text(PROFILE.replace(old, new, 1))
    with pytest.raises(FogError) as caught:
        boards.load_all([tmp_path])
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'x.yaml'}:")


def test_a_folder_of_own_boards_adds_to_those_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(PROFILE.replace("rpi4-", "mine-"))
    monkeypatch.setenv("FOGCTL_HARDWARE_DIR", str(tmp_path))
    assert set(boards.load_all()) == {*SHIPPED, "mine-2g", "mine-4g", "mine-8g"}


def test_two_boards_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "again.yaml").write_text(PROFILE)
    with pytest.raises(FogError, match='"rpi4-2g" is also in'):
        boards.load_all([data.path("hardware"), tmp_path])
