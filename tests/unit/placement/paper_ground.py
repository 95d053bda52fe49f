"""A testbed that only keeps records: apps are deployed, moved and removed on it, and nothing starts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fogctl.errors import FogError
from fogctl.runtime.carry_out import Wave
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Testbed


class PaperGround:
    """A ground on paper: what `Apps` carries out here only happens in its records."""

    def __init__(self, folder: Path, testbed: Testbed) -> None:
        self.testbed, self.latencies = testbed, testbed.latencies
        self.folder = folder
        self.refuses: str | None = None
        """An app whose changes fail."""
        self.made: list[str] = []

    @contextlib.contextmanager
    def changing(self, _: str) -> Iterator[None]:
        yield

    def ready(self, *_: Any) -> None:
        return

    def maker(self, *versions: Any) -> Callable[[Wave], None]:
        name = versions[-1][0].name

        def make(wave: Wave) -> None:
            if name == self.refuses:
                raise FogError("it does not start")
            self.made += [f"{name}: {step.describe()}" for step in wave]

        return make

    def executors(self, app: str, stage: str) -> list[str]:
        found = Apps(self).get(app)  # type: ignore[arg-type]
        return list(found.stage(stage).nodes)

    def kafka(self) -> None:
        return

    def forget(self, _: str) -> None:
        return
