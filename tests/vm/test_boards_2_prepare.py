"""Boards over SSH, `prepare` and `netem`: a bad day is one sentence; the next file shows that it goes on."""

from __future__ import annotations

import json

from tests.vm.shelf import Shelf, at_length

pytestmark = at_length

PREPARE = ("pi", "provision", "-p", "prepare")
NETEM = ("pi", "provision", "-p", "netem")
HELPER = "/usr/local/sbin/fog-netem"


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


def test_a_board_lost_in_the_middle_stops_the_others_unless_they_are_to_go_on(shelf: Shelf) -> None:
    running = shelf.start(*NETEM, "-o", "json")
    # From here on the run changes things: the helper comes last.
    shelf.south.run(
        "while ! grep -qs sbin/fog-netem /var/lib/fogctl-pi/ledger.jsonl; do sleep 0.2; done", timeout_s=900
    )
    shelf.south.monitor("set_link mgmt off")
    try:
        printed, said = running.communicate(timeout=1500)
        assert running.returncode == 1, printed + said
        stopped = json.loads(printed)
        shelf.north.run(f"test ! -e {HELPER}")
        went_on = shelf.asked(1, *NETEM, "--keep-going")
        shelf.north.run(f"test -e {HELPER}")
    finally:
        shelf.south.monitor("set_link mgmt on")
        shelf.south.reconnect()
    for told in (stopped, went_on):
        assert list(told["failures"]) == ["south"]
        assert told["playbooks"]["netem"]["south"]["unreachable"]
    assert len([line for line in said.splitlines() if line.startswith("south: cannot be reached")]) == 1
    assert went_on["playbooks"]["netem"]["north"]["changed"] > 0


def test_a_full_disk_stops_its_board_in_one_sentence(shelf: Shelf) -> None:
    fill = "cat /dev/zero > /root/filler 2>/dev/null; cat /dev/zero > /tmp/filler 2>/dev/null; sync"
    with shelf.seeded(shelf.south, fill, "rm -f /root/filler /tmp/filler"):
        said = shelf.refused(1, *NETEM, "--only", "south")
    assert len([line for line in said if line.startswith("south: ") and "No space left" in line]) == 1, said
