"""Boards over SSH, `monitor`: Debian's Prometheus on the control node sees every board's exporter."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import yaml

from fogctl import data
from tests.vm.shelf import Shelf, at_length

pytestmark = at_length

ROLE = data.path("playbooks") / "ansible_collections" / "fogctl" / "pi" / "roles" / "monitor"
MONITOR = ("pi", "provision", "-p", "monitor")


def test_prometheus_on_the_control_node_sees_every_board(shelf: Shelf) -> None:
    """SSH comes through the emulator, so the boards are found at their other address."""
    settings = shelf.folder / "monitor.yaml"
    settings.write_text(
        yaml.safe_dump(
            {
                "monitor_listen": "{{ fog_data_address }}",
                "monitor_targets": {board.name: board.data_address for board in shelf.boards},
                "monitor_interval": "2s",
            }
        )
    )
    told = shelf.asked(0, *MONITOR, "--vars", str(settings))
    assert all(host["changed"] > 0 for host in told["playbooks"]["monitor"].values())
    seen: dict[str, str] = {}
    limit = time.monotonic() + 120
    while time.monotonic() < limit and seen != {"north": "1", "south": "1"}:
        seen = dict(asked(shelf, 'up{job="nodes"}', may_fail=True))
    assert seen == {"north": "1", "south": "1"}
    # Prometheus understands what the dashboard asks, and has what it shows first. (Debian's own settings, in
    # force until then, had a job for the same numbers.)
    cpu, memory, *others = dashboard_queries()
    assert len(others) > 5
    assert {node for node, _ in asked(shelf, memory)} == {"north", "south"}
    for query in (cpu, *others):
        asked(shelf, query)
    # Nobody but the control node itself asks Prometheus.
    listening = shelf.north.run("ss -Htln 'sport = :9090'").stdout.split()
    assert "127.0.0.1:9090" in listening
    assert "*:9090" not in listening
    assert shelf.asked(0, *MONITOR, "--vars", str(settings))["changed"] == 0


def dashboard_queries() -> list[str]:
    """What the panels of the dashboard ask, in their order."""
    panels = json.loads((ROLE / "files" / "dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def asked(shelf: Shelf, query: str, *, may_fail: bool = False) -> list[tuple[str, str]]:
    """What Prometheus answers: by node the value. Nothing if it fails and may."""
    url = f"http://127.0.0.1:9090/api/v1/query?query={quote(query)}"
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}).read().decode())"
    answer = shelf.north.run(["python3", "-c", program], check=not may_fail).stdout
    found = json.loads(answer)["data"]["result"] if answer else []
    return [(each["metric"]["node"], each["value"][1]) for each in found]
