"""Makes log lines from a seed, each with what it is, so that results can be judged; dirt on request."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_COMPONENTS = ("gateway", "auth", "storage", "scheduler", "billing", "cache.l2", "mqtt-bridge", "kernel")
_COMPONENT_WEIGHTS = (30, 18, 16, 12, 9, 7, 5, 3)
_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_LEVEL_WEIGHTS = (20, 60, 13, 6, 1)
# What is said, how often, and which of the matcher's patterns it matches.
_MESSAGES = (
    ("request {n} served in {m} ms", 50, ()),
    ("user u{n} logged in", 12, ()),
    ("cache hit ratio {m} %", 10, ()),
    ("wrote block {n} to volume {m}", 10, ()),
    ("login failed for user u{n}", 5, ("login-failed",)),
    ("GET /static/../../etc/passwd from 10.0.{m}.7", 2, ("path-traversal",)),
    ("query rejected: name='x' OR {n}={n}", 2, ("sql-injection",)),
    ("worker {m} killed: out of memory", 2, ("out-of-memory",)),
    ("upstream {m} timed out after {n} ms", 3, ("timed-out",)),
    ("cannot append: no space left on device sd{m}", 1, ("disk-full",)),
    ("connection refused by peer {m}, timeout {n} ms", 2, ("refused", "timed-out")),
    ("segfault at {n}, core dumped", 1, ("crash",)),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line and the truth about it; component and level are None where the line is not valid."""

    text: str
    component: str | None
    level: str | None
    matches: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """Whether the parser must be able to read it."""
        return self.component is not None


def lines(count: int, seed: int = 1, dirt: float = 0.0) -> Iterator[Line]:
    """That many lines, a share `dirt` of them spoiled; the same arguments always give the same lines."""
    if count < 0:
        raise ValueError(f"the number of lines is 0 or more, not {count}")
    if not 0 <= dirt <= 1:
        raise ValueError(f"dirt is a share between 0 and 1, not {dirt}")
    rng = random.Random(seed)
    now = datetime(2026, 5, 1, tzinfo=UTC)
    texts, weights, matches = zip(*_MESSAGES, strict=True)
    for _ in range(count):
        now += timedelta(milliseconds=rng.expovariate(0.1))
        component = rng.choices(_COMPONENTS, _COMPONENT_WEIGHTS)[0]
        level = rng.choices(_LEVELS, _LEVEL_WEIGHTS)[0]
        which = rng.choices(range(len(texts)), weights)[0]
        message = texts[which].format(n=rng.randrange(10_000), m=rng.randrange(100))
        time = now.isoformat(timespec="milliseconds").removesuffix("+00:00")
        text = f"{time}Z {level} {component}[{rng.randrange(1, 40_000)}]: {message}"
        if rng.random() < dirt:
            yield Line(_spoilt(text, rng), None, None, ())
        else:
            yield Line(text, component, level, tuple(sorted(matches[which])))


def _spoilt(text: str, rng: random.Random) -> str:
    """The line made unreadable in one of several ways."""
    head = text.index("]: ")
    ways = (
        "",
        text[: rng.randrange(1, head)],
        text.replace("T", " ", 1),
        text.replace("2026-05", "2026-15", 1),
        text.replace("]: ", " ", 1),
        text[:24] + " NOTICE" + text[text.index(" ", 25) :],
        "".join(chr(rng.choice((rng.randrange(1, 0x250), rng.randrange(0x4E00, 0x9FFF)))) for _ in range(40)),
        '{"valid": true, "component": "' + text[25:30] + '"}',
    )
    return ways[rng.randrange(len(ways))]
