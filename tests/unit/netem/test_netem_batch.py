"""The kernel backend as lines for `tc -batch`."""

from __future__ import annotations

import re

from fognetem.batch import Target, build, change, remove
from fognetem.matrix import Path
from hypothesis import given
from hypothesis import strategies as st

# What fog-netem on the other side accepts.
ACCEPTED = re.compile(r"(qdisc|class|filter) (add|replace|change|del) dev [A-Za-z0-9._-]+ .*")

paths = st.builds(
    Path,
    rtt_ms=st.floats(10, 1000),
    jitter_ms=st.floats(0, 10),
    loss=st.floats(0, 1),
    rate_bit_s=st.none() | st.floats(1000, 1e9),
    reorder=st.booleans(),
)


def test_a_tree_lets_ssh_pass_before_any_destination_is_looked_at() -> None:
    lines = build("eth0", [Target(1, "10.0.0.2", Path(80.0))], free_ports=[22])
    assert lines == [
        "qdisc add dev eth0 root handle f060: htb default 0",
        "filter add dev eth0 parent f060: protocol ip prio 1 u32 match ip protocol 6 0xff match ip sport 22 "
        "0xffff flowid f060:",
        "filter add dev eth0 parent f060: protocol ip prio 2 u32 match ip protocol 6 0xff match ip dport 22 "
        "0xffff flowid f060:",
        "class add dev eth0 parent f060: classid f060:1 htb rate 34359738360bit burst 4m cburst 4m "
        "quantum 200000",
        "qdisc add dev eth0 parent f060:1 handle 6001: netem limit 1000000 delay 40000us rate 34359738360bit",
        "filter add dev eth0 parent f060: protocol ip prio 257 u32 match ip dst 10.0.0.2/32 flowid f060:1",
    ]


def test_half_of_the_round_trip_goes_on_each_direction_with_all_that_a_path_has() -> None:
    line = change("eth0", [Target(11, "10.0.0.2", Path(80.0, 10.0, 0.001, 1e6))])[0]
    assert line.startswith("qdisc change dev eth0 parent f060:b handle 600b: netem limit ")
    assert line.endswith("delay 40000us 5000us loss random 0.10000000% rate 1000000bit")


def test_reordering_is_had_by_no_rate_at_all() -> None:
    assert change("eth0", [Target(1, "10.0.0.2", Path(80.0, 10.0, reorder=True))])[0].endswith("rate 0bit")


@given(st.lists(paths, min_size=1, max_size=40), st.sets(st.integers(1, 65535), max_size=8))
def test_every_line_is_one_that_the_host_accepts_and_no_name_is_used_twice(
    given_paths: list[Path], ports: set[int]
) -> None:
    targets = [Target(place, f"10.0.0.{place}", path) for place, path in enumerate(given_paths, start=1)]
    lines = [*remove("eth0"), *build("eth0", targets, sorted(ports))]
    assert all(ACCEPTED.fullmatch(line) for line in lines)
    priorities = [line.split(" prio ")[1].split()[0] for line in lines if " prio " in line]
    assert len(set(priorities)) == len(priorities) == len(targets) + 2 * len(ports)
    assert len({line for line in lines if line.startswith("class")}) == len(targets)
    assert len(change("eth0", targets)) == len(targets)
