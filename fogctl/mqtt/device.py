"""Devices for tests and demonstrations: they publish numbered readings at QoS 1 and never give one up.

Run on a node as `python -m fogctl.mqtt.device SPEC`; prints a JSON line of progress twice a second and one
with the result at the end. Each device has a connection and a user of its own; a record is done when the
bridge confirms that Kafka has it, or, without confirmations, with Mosquitto's PUBACK.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from paho.mqtt.client import Client
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from fogctl.errors import FogError
from fogctl.mqtt import topics
from fogctl.mqtt.credentials import Credentials
from fogctl.mqtt.link import Link
from fogctl.mqtt.outbox import Outbox

_NO_SUBSCRIBERS = 0x10
_QUOTA_EXCEEDED = 0x97
_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be published."""

    address: str
    credentials: str
    app: str
    stream: str
    devices: tuple[str, ...]
    count: int
    rate_per_s: float
    """Of all devices together; inf: as fast as they can."""
    first_number: int = 0
    confirm: bool = True
    seed: int = 1
    values: str | None = None
    """A file with a record a line, used again from its start when it ends; None: readings are made."""
    record: str | None = None
    """A file that gets a JSON line for each record that is done."""
    window: int = 2_000
    """How many records may be under way, of all devices together."""
    patience_s: float = 120.0
    """How long nothing may be acknowledged before they give up."""

    @classmethod
    def read(cls, file: Path) -> Job:
        """From the JSON file the command line wrote."""
        data = json.loads(file.read_text())
        return cls(**{**data, "devices": tuple(data["devices"])})


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a job."""

    sent: int
    done: int
    accepted: int
    confirmed: int
    resent: int
    connections: int
    duration_s: float
    cpu_s: float
    late_s: float
    """How far behind its schedule the last record was sent."""
    refused: str = ""


class Device:
    """One device: a connection, and the records it still cares for."""

    def __init__(self, name: str, job: Job, done: Callable[[str, int, bytes], None]) -> None:
        self.name = name
        self.topic = topics.DeviceTopic(job.app, job.stream, name).mqtt
        self.outbox = Outbox(confirm=job.confirm)
        self.connections = 0
        self.refused = ""
        self._confirm = job.confirm
        self._done = done
        self._numbers: dict[int, int] = {}
        self._again: list[tuple[float, int]] = []
        password = Credentials(Path(job.credentials)).password(name)
        self.link = Link(job.address, name, password, on_up=self._up, on_refused=self._not_let_in)
        self.link.client.on_publish = self._accepted

    def send(self, number: int, payload: bytes) -> None:
        """Publish a new record; without a connection it goes out with the next one."""
        self.outbox.add(number, payload)
        self._publish(number, payload)

    def tend(self, now_s: float) -> None:
        """Keep the connection, and send again what Mosquitto could not use a moment ago."""
        self.link.tend(now_s)
        while self._again and self._again[0][0] <= now_s:
            _, number = self._again.pop(0)
            if (payload := self.outbox.payload(number)) is not None:
                self._publish(number, payload)

    def read(self) -> None:
        """Take acknowledgements and confirmations."""
        for message in self.link.read():
            for number, payload in self.outbox.confirm(map(int, bytes(message.payload).split())):
                self._done(self.name, number, payload)

    def _publish(self, number: int, payload: bytes) -> None:
        said = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        said.UserProperty = (topics.NUMBER, str(number))
        if self._confirm:
            said.ResponseTopic = topics.confirmations(self.name)
        info = self.link.client.publish(self.topic, payload, qos=1, properties=said)
        self._numbers[info.mid] = number

    def _up(self, _session_present: bool) -> None:
        self.connections += 1
        if self._confirm:
            # Before anything is sent again: confirmations of it must find us listening.
            self.link.client.subscribe(topics.confirmations(self.name))
            now_s = time.monotonic()
            self._again = [(now_s, number) for number in self.outbox.send_again(self._numbers.values())]

    def _accepted(self, _client: Client, _data: Any, mid: int, reason: ReasonCode, _properties: Any) -> None:
        number = self._numbers.pop(mid)
        if reason.value in (_NO_SUBSCRIBERS, _QUOTA_EXCEEDED):
            # Mosquitto threw it away: the bridge has never been there, or there is no room.
            self._again.append((time.monotonic() + _AGAIN_S, number))
        elif reason.is_failure:
            self.refused = f"{self.topic}: {reason}"
        elif (payload := self.outbox.accept(number)) is not None:
            self._done(self.name, number, payload)

    def _not_let_in(self, reason: str) -> None:
        self.refused = f"{self.name}: {reason}"


class Fleet:
    """All devices of a job in one process, records given out in turn."""

    def __init__(self, job: Job, say: Callable[[dict[str, Any]], None]) -> None:
        self._job = job
        self._say = say
        self._record: TextIO | None = open(job.record, "a") if job.record else None  # noqa: PTH123, SIM115
        self._devices = [Device(name, job, self._note) for name in job.devices]
        self._sent = self._finished = 0
        self._late_s = 0.0
        self._stopping = False

    def stop(self) -> None:
        """Send no new record; see those under way through."""
        self._stopping = True

    def run(self) -> Published:
        """Publish until every record is done, or nothing moves any more."""
        job, began_s, cpu_s = self._job, time.monotonic(), time.process_time()
        values = _values(job)
        moved_s = next_word_s = began_s
        progress = (0, 0)
        while True:
            now_s = time.monotonic()
            self._send_due(now_s - began_s, values)
            if self._over():
                break
            self._turn(now_s, self._pause_s(now_s - began_s))
            if (self._sent, self._finished) != progress:
                progress, moved_s = (self._sent, self._finished), now_s
            elif now_s > moved_s + job.patience_s or self._refused:
                break
            if now_s >= next_word_s:
                self._say({"sent": self._sent, "done": self._finished})
                next_word_s = now_s + 0.5
        for device in self._devices:
            device.link.close()
        if self._record is not None:
            self._record.close()
        boxes = [device.outbox for device in self._devices]
        return Published(
            sent=self._sent,
            done=self._finished,
            accepted=sum(box.accepted for box in boxes),
            confirmed=sum(box.confirmed for box in boxes),
            resent=sum(box.resent for box in boxes),
            connections=sum(device.connections for device in self._devices),
            duration_s=time.monotonic() - began_s,
            cpu_s=time.process_time() - cpu_s,
            late_s=self._late_s,
            refused=self._refused,
        )

    @property
    def _refused(self) -> str:
        return next((device.refused for device in self._devices if device.refused), "")

    def _over(self) -> bool:
        everything = self._stopping or self._sent == self._job.count
        return everything and self._finished == self._sent

    def _due_s(self) -> float:
        return 0.0 if math.isinf(self._job.rate_per_s) else self._sent / self._job.rate_per_s

    def _send_due(self, elapsed_s: float, values: Iterator[Callable[[str], bytes]]) -> None:
        """Send what is due, unless too much is under way."""
        job = self._job
        while (
            not self._stopping
            and self._sent < job.count
            and self._sent - self._finished < job.window
            and self._due_s() <= elapsed_s
        ):
            device = self._devices[self._sent % len(self._devices)]
            self._late_s = elapsed_s - self._due_s()
            device.send(job.first_number + self._sent, next(values)(device.name))
            self._sent += 1

    def _pause_s(self, elapsed_s: float) -> float:
        """How long to wait for the network: until the next record is due, at most a tenth of a second."""
        if self._stopping or self._sent == self._job.count or self._sent - self._finished >= self._job.window:
            return 0.1
        return min(0.1, max(0.0, self._due_s() - elapsed_s))

    def _turn(self, now_s: float, timeout_s: float) -> None:
        for device in self._devices:
            device.tend(now_s)
        by_socket = {found: d for d in self._devices if (found := d.link.socket) is not None}
        wanting = [found for found, device in by_socket.items() if device.link.client.want_write()]
        if not by_socket:
            time.sleep(timeout_s)
            return
        ready, writable, _ = select.select(list(by_socket), wanting, [], timeout_s)
        for found in ready:
            by_socket[found].read()
        for found in writable:
            by_socket[found].link.write()

    def _note(self, device: str, number: int, payload: bytes) -> None:
        self._finished += 1
        if self._record is not None:
            line = {"number": number, "device": device, "payload": payload.decode(errors="replace")}
            self._record.write(json.dumps(line) + "\n")


def reading(device: str, number: int, seed: int, at_s: float) -> bytes:
    """A reading as the app `sensors` takes it: about 20 degrees, the same for the same seed and number."""
    whole, fraction = divmod(at_s, 1)
    taken = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(fraction * 1000):03d}Z"
    value = round(random.Random(f"{seed}/{number}").gauss(20, 3), 3)
    return json.dumps({"sensor": device, "time": taken, "value": value}).encode()


def _values(job: Job) -> Iterator[Callable[[str], bytes]]:
    """For each record in turn, what makes its content from the device's name."""
    if job.values is None:
        for number in itertools.count(job.first_number):
            yield lambda device, number=number: reading(device, number, job.seed, time.time())  # type: ignore[misc]
    lines = Path(str(job.values)).read_bytes().splitlines()
    for line in itertools.cycle(lines):
        yield lambda _, line=line: line  # type: ignore[misc]


def main(spec_file: Path) -> int:
    """Run the job of a spec; exit 1 if a record could not be delivered."""
    job = Job.read(spec_file)

    def say(data: dict[str, Any]) -> None:
        print(json.dumps(data), flush=True)

    try:
        fleet = Fleet(job, say)
    except FogError as error:
        print(str(error), file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: fleet.stop())
    published = fleet.run()
    say({"result": asdict(published)})
    return 0 if published.done == published.sent and not published.refused else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
