"""Boards over SSH, `prepare` and `netem`: a bad day is one sentence; the next file shows that it goes on."""

from __future__ import annotations

import json

from tests.vm.shelf import Shelf, unproven

pytestmark = unproven

PREPARE = ("pi", "provision", "-p", "prepare")
NETEM = ("pi", "provision", "-p", "netem")


def test_power_lost_in_the_middle_is_one_sentence_and_does_not_stop_the_others(shelf: Shelf) -> None:
    running = shelf.start(*PREPARE, "--keep-going", "-o", "json")
    shelf.south.run("while [ ! -e /etc/sysctl.d/90-fogctl.conf ]; do sleep 0.2; done; sync")
    shelf.south.cut_power()
    printed, said = running.communicate(timeout=1500)
    shelf.south.give_power()
    assert running.returncode == 1, printed + said
    told = json.loads(printed)
    assert list(told["failures"]) == ["south"]
    assert told["playbooks"]["prepare"]["north"]["failed"] is None
    assert len([line for line in said.splitlines() if line.startswith("south: cannot be reached")]) == 1


def test_an_unreachable_board_stops_the_others_unless_they_are_to_go_on(shelf: Shelf) -> None:
    shelf.south.monitor("set_link mgmt off")
    try:
        stopped = shelf.asked(1, *NETEM)
        went_on = shelf.asked(1, *NETEM, "--keep-going")
    finally:
        shelf.south.monitor("set_link mgmt on")
    for told in (stopped, went_on):
        assert list(told["failures"]) == ["south"]
        assert told["playbooks"]["netem"]["south"]["unreachable"]
    assert stopped["changed"] == 0
    assert went_on["playbooks"]["netem"]["north"]["changed"] > 0


def test_a_full_disk_stops_its_board_in_one_sentence(shelf: Shelf) -> None:
    fill = "cat /dev/zero > /root/filler 2>/dev/null; cat /dev/zero > /tmp/filler 2>/dev/null; sync"
    with shelf.seeded(shelf.south, fill, "rm -f /root/filler /tmp/filler"):
        said = shelf.refused(1, *NETEM, "--only", "south")
    assert len([line for line in said if line.startswith("south: ") and "No space left" in line]) == 1, said
