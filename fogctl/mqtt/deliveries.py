"""What the bridge may acknowledge, and when: a message only after Kafka has it. Pure.

A message that Mosquitto delivers has a number (mid) that means something on that connection only: after a
reconnection the same mid may stand for another message, because a killed Mosquitto restarts from an older
copy of its queue. So an acknowledgement is only ever given on the connection that brought the message. What
was under way when the connection broke is remembered until the next one breaks: if Mosquitto delivers such a
message again, the write that is under way, or done, counts for it, and Kafka does not get it twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """What a device published."""

    topic: str
    payload: bytes
    number: str | None = None
    """The number the device gave it."""
    confirm: bool = False
    """Whether the device wants to be told when Kafka has it."""


@dataclass(frozen=True, slots=True)
class Write:
    """Have Kafka store this message, and say `written(token)` once it has."""

    token: int
    message: Message


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell Mosquitto that this message is safe."""

    mid: int
    message: Message


@dataclass(slots=True)
class _UnderWay:
    message: Message
    mid: int
    current: bool = True
    """Brought by the connection that stands now."""
    done: bool = False


class Deliveries:
    """The messages between Mosquitto and Kafka."""

    def __init__(self) -> None:
        self._under_way: dict[int, _UnderWay] = {}
        self._earlier: dict[Message, deque[int]] = {}
        self._tokens = 0
        self._connected = False

    @property
    def unwritten(self) -> int:
        """How many messages Kafka has not acknowledged yet."""
        return sum(not entry.done for entry in self._under_way.values())

    def connected(self, *, session_present: bool) -> None:
        """A connection stands. Without the old session nothing will be delivered again."""
        self.disconnected()
        self._connected = True
        if not session_present:
            self._forget_earlier()

    def disconnected(self) -> None:
        """The connection is gone, and with it the meaning of its mids."""
        if not self._connected:
            return
        self._connected = False
        self._forget_earlier()
        for token, entry in self._under_way.items():
            entry.current = False
            self._earlier.setdefault(entry.message, deque()).append(token)

    def delivered(self, mid: int, message: Message, *, again: bool) -> Write | Acknowledge | None:
        """Mosquitto delivered a message; `again`: it says that it tried before.

        None: the message is on its way to Kafka already and will be acknowledged when it is there.
        """
        if again and (tokens := self._earlier.get(message)):
            token = tokens.popleft()
            entry = self._under_way[token]
            if entry.done:
                del self._under_way[token]
                return Acknowledge(mid, message)
            entry.mid, entry.current = mid, True
            return None
        self._tokens += 1
        self._under_way[self._tokens] = _UnderWay(message, mid)
        return Write(self._tokens, message)

    def written(self, token: int) -> Acknowledge | None:
        """Kafka has it; None if nobody on this connection waits to hear that."""
        entry = self._under_way.get(token)
        if entry is None:
            return None
        if not entry.current:
            entry.done = True
            return None
        del self._under_way[token]
        return Acknowledge(entry.mid, entry.message)

    def _forget_earlier(self) -> None:
        """What the last connection did not deliver again will not come again under its old number."""
        for tokens in self._earlier.values():
            for token in tokens:
                del self._under_way[token]
        self._earlier = {}
