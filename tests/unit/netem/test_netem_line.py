"""One direction of a path: order, delay, loss and rate, packet by packet."""

import random

from fognetem import Path
from fognetem.line import BEHIND, GO, LOST, Pipe
from hypothesis import given, settings
from hypothesis import strategies as st

MS = 1_000_000


def play(pipe: Pipe, arrivals: list[int], length: int = 1000) -> list[tuple[int, int]]:
    """Feed packets at these times and let the pipe run dry; (packet, leaving time) in leaving order."""
    left: list[tuple[int, int]] = []
    now = 0

    def drain(until: int) -> None:
        nonlocal now
        while (due := pipe.next_ns()) is not None and due <= until:
            now = max(now, due)
            pipe.leave(now, lambda message, now=now: left.append((int(message), now)))

    for number, at in enumerate(arrivals):
        drain(at)
        now = at
        if pipe.enter(str(number).encode(), length, at) == GO:
            left.append((number, at))
    drain(10**18)
    return left


times = st.lists(st.integers(0, 400 * MS), min_size=1, max_size=60).map(sorted)


@given(times, st.integers(0, 300), st.integers(0, 100))
def test_without_reordering_packets_leave_in_order_within_the_jitter(
    arrivals: list[int], rtt: int, percent: int
) -> None:
    jitter = rtt * percent / 100
    left = play(Pipe(Path(rtt, jitter), 0, random.Random(1)), arrivals)
    assert [number for number, _ in left] == list(range(len(arrivals)))
    for number, at in left:
        assert at - arrivals[number] >= (rtt - jitter) / 2 * MS - 1
        assert at - arrivals[number] <= (rtt + jitter) / 2 * MS + 1


@given(times, st.integers(0, 300))
def test_without_jitter_the_delay_is_exact(arrivals: list[int], rtt: int) -> None:
    for number, at in play(Pipe(Path(rtt), 0, random.Random(1)), arrivals):
        assert at - arrivals[number] == rtt * MS // 2


def test_reordering_happens_only_where_it_is_allowed() -> None:
    arrivals = [i * 100_000 for i in range(500)]
    numbers = [number for number, _ in play(Pipe(Path(20, 10, reorder=True), 0, random.Random(3)), arrivals)]
    assert sorted(numbers) == list(range(500))
    assert numbers != list(range(500))


def test_loss_drops_about_the_asked_share_and_counts_it() -> None:
    pipe = Pipe(Path(0, loss=0.2), 0, random.Random(5))
    left = play(pipe, [i * MS for i in range(5000)])
    lost = 5000 - len(left)
    assert 850 < lost < 1150  # five standard deviations
    assert pipe.counters.lost == lost
    assert pipe.counters.delayed == len(left)


def test_rate_spaces_packets_by_their_length_and_drops_beyond_its_buffer() -> None:
    # 986 + 14 bytes at 1 Mbit/s take 8 ms each.
    pipe = Pipe(Path(10, rate_bit_s=1e6), 0, random.Random(1))
    left = play(pipe, [0] * 100, length=986)
    assert [at for _, at in left] == [(5 + 8 * (i + 1)) * MS for i in range(len(left))]
    assert len(left) == 26  # 200 ms of buffer, and the one being sent
    assert pipe.counters.overflowed == 74


@settings(max_examples=200)
@given(st.data())
def test_live_changes_lose_and_reorder_nothing(data: st.DataObject) -> None:
    rtts = data.draw(st.lists(st.sampled_from([0, 1, 10, 80, 300]), min_size=2, max_size=6))
    arrivals = data.draw(times)
    pipe = Pipe(Path(rtts[0]), 0, random.Random(1))
    left: list[int] = []
    now = 0
    events = [(at, "packet") for at in arrivals]
    events += [(data.draw(st.integers(0, 400 * MS)), rtt) for rtt in rtts[1:]]
    for number, (at, what) in enumerate(sorted(events, key=lambda event: event[0])):
        while (due := pipe.next_ns()) is not None and due <= at:
            pipe.leave(due, lambda message: left.append(int(message)))
        now = at
        if what == "packet":
            if pipe.enter(str(number).encode(), 100, now) == GO:
                left.append(number)
        else:
            pipe.change(Path(float(what)), 0, now)
    while (due := pipe.next_ns()) is not None:
        pipe.leave(due, lambda message: left.append(int(message)))
    assert len(left) == len(arrivals)
    assert left == sorted(left)


def test_packets_under_way_arrive_by_the_shorter_delay() -> None:
    pipe = Pipe(Path(300), 0, random.Random(1))
    assert pipe.enter(b"0", 100, 0) == 150 * MS
    assert pipe.enter(b"1", 100, 20 * MS) == BEHIND
    assert pipe.change(Path(60), 0, 40 * MS) == 40 * MS  # sent 40 ms ago on a path of now 30 ms: due at once
    left: list[bytes] = []
    assert pipe.leave(40 * MS, left.append) == 50 * MS
    assert pipe.leave(50 * MS, left.append) is None
    assert left == [b"0", b"1"]


def test_total_loss_loses_everything() -> None:
    pipe = Pipe(Path(loss=1), 0, random.Random(1))
    assert {pipe.enter(b"x", 100, at) for at in range(100)} == {LOST}


def test_lead_is_taken_off_the_delay_but_never_lets_a_packet_go_before_it_came() -> None:
    assert Pipe(Path(10), MS, random.Random(1)).enter(b"x", 100, 0) == 4 * MS
    assert Pipe(Path(1), MS, random.Random(1)).enter(b"x", 100, 0) == GO
