"""Nothing is acknowledged before Kafka has it, whatever breaks: judged by a simulated Mosquitto and Kafka."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.mqtt.deliveries import Acknowledge, Deliveries, Message, Write
from fogctl.mqtt.outbox import Outbox

WINDOW = 3
UNNUMBERED = Message("fog/a/b/c", b"21.5")
KILLS = ("kill_mosquitto", "kill_bridge", "confirmation_lost")


@dataclass
class Queue:
    """What Mosquitto keeps for the bridge; a copy of it is what a killed Mosquitto restarts from."""

    waiting: list[int] = field(default_factory=list)
    in_flight: dict[int, int] = field(default_factory=dict)
    """By mid; the value is an identity that no two messages share."""
    next_mid: int = 1


class World:
    """Mosquitto, the bridge's bookkeeping and Kafka, one event at a time."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.queue = Queue()
        self.saved = copy.deepcopy(self.queue)
        self.deliveries = Deliveries()
        self.up = False
        self.writing: dict[int, Message] = {}
        self.stored: list[Message] = []
        self.acknowledged: list[Message] = []
        self.delivered: set[int] = set()
        """What the bridge has been given since it started."""
        self.lost: set[int] = set()
        """What Mosquitto had, forgot when it was killed, and never gave to a bridge that still runs."""

    def publish(self, message: Message) -> None:
        identity = len(self.messages)
        self.messages[identity] = message
        self.queue.waiting.append(identity)

    def connect(self, backwards: bool = False) -> None:
        """Mosquitto first delivers again what it had delivered before."""
        if self.up:
            return
        self.up = True
        self.deliveries.connected(session_present=True)
        in_flight = list(self.queue.in_flight.items())
        for mid, identity in reversed(in_flight) if backwards else in_flight:
            self.delivered.add(identity)
            self._answer(self.deliveries.delivered(mid, self.messages[identity], again=True))

    def disconnect(self) -> None:
        if self.up:
            self.up = False
            self.deliveries.disconnected()

    def deliver(self) -> None:
        if self.up and self.queue.waiting and len(self.queue.in_flight) < WINDOW:
            identity = self.queue.waiting.pop(0)
            # Mids are used again soon, and a restored Mosquitto gives them to other messages.
            mid = self.queue.next_mid
            while mid in self.queue.in_flight:
                mid = mid % 4 + 1
            self.queue.next_mid = mid % 4 + 1
            self.queue.in_flight[mid] = identity
            self.delivered.add(identity)
            self._answer(self.deliveries.delivered(mid, self.messages[identity], again=False))

    def save(self) -> None:
        self.saved = copy.deepcopy(self.queue)

    def kill_mosquitto(self) -> None:
        """It starts again from its last copy."""
        self.disconnect()
        had = {*self.queue.waiting, *self.queue.in_flight.values()}
        self.queue = copy.deepcopy(self.saved)
        self.lost |= had - {*self.queue.waiting, *self.queue.in_flight.values()} - self.delivered

    def kill_bridge(self) -> None:
        """What it handed to Kafka may or may not have arrived; say it did not."""
        self.up = False
        kept = {*self.queue.waiting, *self.queue.in_flight.values()}
        writing = list(self.writing.values())
        self.lost |= {i for i in self.delivered - kept if self.messages[i] in writing}
        self.deliveries, self.writing, self.delivered = Deliveries(), {}, set()

    def store(self, which: int) -> None:
        """Kafka finishes one of the writes, in any order."""
        if self.writing:
            token = sorted(self.writing)[which % len(self.writing)]
            self.stored.append(self.writing.pop(token))
            self._answer(self.deliveries.written(token))

    def settle(self) -> None:
        """Everything works again, for long enough."""
        self.connect()
        while self.queue.waiting or self.writing:
            self.deliver()
            self.store(0)

    def _answer(self, answer: Write | Acknowledge | None) -> None:
        if isinstance(answer, Write):
            self.writing[answer.token] = answer.message
        elif isinstance(answer, Acknowledge):
            assert self.up, "acknowledged without a connection"
            identity = self.queue.in_flight.pop(answer.mid)
            assert self.messages[identity] == answer.message, "acknowledged another message"
            self.acknowledged.append(answer.message)
            # One write that is done for each acknowledgement, also among equal messages.
            assert self.acknowledged.count(answer.message) <= self.stored.count(answer.message)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["deliver", "connect", "connect_backwards"]), st.just(0)),
        st.tuples(st.just("store"), st.integers(0, 5)),
        st.tuples(
            st.sampled_from(["deliver", "disconnect", "save", "kill_mosquitto", "kill_bridge"]), st.just(0)
        ),
    ),
    max_size=60,
)


def play(world: World, steps: list[tuple[str, int]]) -> None:
    for what, which in steps:
        if what == "publish":
            # 0 to 2: one of few equal messages without a number; 3: one of its own.
            text = f"{which}" if which < 3 else f"own {len(world.messages)}"
            world.publish(Message("fog/a/b/c", text.encode()))
        elif what == "store":
            world.store(which)
        elif what == "connect_backwards":
            world.connect(backwards=True)
        else:
            getattr(world, what)()


@settings(max_examples=600, deadline=None)
@given(STEPS)
def test_only_what_kafka_has_is_acknowledged_and_everything_kept_arrives(
    steps: list[tuple[str, int]],
) -> None:
    world = World()
    play(world, steps)
    world.settle()
    assert not world.queue.in_flight
    for message in set(world.messages.values()):
        kept = sum(
            world.messages[identity] == message for identity in world.messages if identity not in world.lost
        )
        assert world.stored.count(message) >= kept


def test_a_write_that_is_done_counts_when_the_message_is_delivered_again() -> None:
    deliveries = Deliveries()
    deliveries.connected(session_present=True)
    message = Message("fog/a/b/c", b"21.5", "7")
    write = deliveries.delivered(1, message, again=False)
    assert isinstance(write, Write)
    deliveries.disconnected()
    assert deliveries.written(write.token) is None
    deliveries.connected(session_present=True)
    assert deliveries.delivered(1, message, again=True) == Acknowledge(1, message)
    assert isinstance(deliveries.delivered(2, message, again=True), Write)


def interrupted(message: Message) -> tuple[Deliveries, int]:
    """A message was delivered as number 1, and then the connection broke: what is left, and its write."""
    deliveries = Deliveries()
    deliveries.connected(session_present=True)
    write = deliveries.delivered(1, message, again=False)
    assert isinstance(write, Write)
    deliveries.disconnected()
    return deliveries, write.token


def test_an_equal_message_that_is_new_is_written_too() -> None:
    deliveries, token = interrupted(UNNUMBERED)
    deliveries.written(token)
    deliveries.connected(session_present=True)
    assert isinstance(deliveries.delivered(2, UNNUMBERED, again=False), Write)


def test_a_write_is_acknowledged_under_the_number_of_the_last_delivery() -> None:
    deliveries, token = interrupted(UNNUMBERED)
    deliveries.connected(session_present=True)
    assert deliveries.delivered(9, UNNUMBERED, again=True) is None
    assert deliveries.written(token) == Acknowledge(9, UNNUMBERED)


def test_what_was_not_delivered_again_counts_for_nobody_later() -> None:
    """Mosquitto lost it; an equal one that comes again two connections later is another one."""
    deliveries, token = interrupted(UNNUMBERED)
    deliveries.written(token)
    deliveries.connected(session_present=True)
    deliveries.disconnected()
    deliveries.connected(session_present=True)
    assert isinstance(deliveries.delivered(1, UNNUMBERED, again=True), Write)


def test_without_the_old_session_an_old_write_counts_for_nobody() -> None:
    deliveries = Deliveries()
    deliveries.connected(session_present=False)
    message = Message("fog/a/b/c", b"21.5")
    write = deliveries.delivered(1, message, again=False)
    assert isinstance(write, Write)
    deliveries.connected(session_present=False)
    assert isinstance(deliveries.delivered(1, message, again=True), Write)
    assert deliveries.written(write.token) is None


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ("send", "send", "deliver", "deliver", "store", "connect", "disconnect", "save", *KILLS)
            ),
            st.integers(0, 5),
        ),
        max_size=80,
    )
)
def test_a_device_that_asks_for_confirmations_loses_nothing_to_any_kill(steps: list[tuple[str, int]]) -> None:
    """Mosquitto accepts at once, in memory only: a kill loses what it accepted since its last copy."""
    world, outbox = World(), Outbox(confirm=True)
    heard, connected, sent = 0, True, 0

    def publish(number: int) -> None:
        world.publish(Message("fog/a/b/c", b"x", str(number), confirm=True))
        outbox.accept(number)

    def listen() -> None:
        nonlocal heard
        fresh, heard = world.acknowledged[heard:], len(world.acknowledged)
        if connected:
            for number, _ in outbox.confirm(int(message.number or -1) for message in fresh):
                assert any(stored.number == str(number) for stored in world.stored)

    def reconnect() -> None:
        nonlocal connected
        connected = True
        for number in outbox.send_again(()):
            publish(number)

    for what, which in steps:
        if what == "send":
            outbox.add(sent, b"x")
            publish(sent)
            sent += 1
        elif what == "store":
            world.store(which)
        elif what == "confirmation_lost":
            # The device's connection breaks; what is confirmed until it is back is not heard.
            connected = False
            world.store(which)
            listen()
            reconnect()
        else:
            getattr(world, what)()
            if what == "kill_mosquitto":
                reconnect()
        listen()
    world.settle()
    listen()
    assert len(outbox) == 0
    assert {message.number for message in world.stored} == {str(number) for number in range(sent)}


@pytest.mark.parametrize("confirm", [True, False])
def test_an_outbox_is_done_with_a_record_when_its_last_word_came(confirm: bool) -> None:
    outbox = Outbox(confirm=confirm)
    outbox.add(4, b"x")
    assert outbox.accept(4) == (None if confirm else b"x")
    assert outbox.numbers == ([4] if confirm else [])
    assert outbox.confirm([4]) == ([(4, b"x")] if confirm else [])
    assert outbox.confirm([4]) == []
    assert (len(outbox), outbox.accepted) == (0, 1)


def test_what_the_client_sends_again_by_itself_is_not_sent_twice() -> None:
    outbox = Outbox(confirm=True)
    for number in range(3):
        outbox.add(number, b"x")
    outbox.accept(0)
    assert outbox.send_again([1, 2]) == [0]
