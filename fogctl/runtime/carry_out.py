"""Carrying out changes: what belongs together at the same time, everything undone if one fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fogctl.errors import FAILED, ChangeInterruptedError, FogError
from fogctl.runtime.deployment import AddReplica, Change, RemoveReplica, StartStage, StopStage, inverse

Say = Callable[[str], None]
Wave = Sequence[Change]
Make = Callable[[Wave], None]
TOGETHER = (StartStage | AddReplica, RemoveReplica)
"""Kinds of changes that are made at the same time: what starts, and replicas that leave."""


def waves(steps: Sequence[Change]) -> list[list[Change]]:
    """The steps in their order; those that go together, where adjacent, as one."""
    found: list[list[Change]] = []
    for step in steps:
        if found and any(isinstance(step, kind) and isinstance(found[-1][0], kind) for kind in TOGETHER):
            found[-1].append(step)
        else:
            found.append([step])
    return found


def carry_out(
    steps: Sequence[Change], make: Make, remedy: str, say: Say, make_back: Make | None = None
) -> None:
    """Make the changes wave by wave; if one fails, or Ctrl-C comes, undo those begun, newest first.

    `make_back` makes the changes that undo others, where that is not done as `make` does it.
    """
    begun: list[Change] = []
    try:
        for wave in waves(steps):
            for step in wave:
                say(step.describe())
            begun += wave
            make(wave)
    except (FogError, KeyboardInterrupt) as error:
        undo(begun, make_back or make, remedy, say)
        undone = "what had been changed was undone"
        if stopped := [step.stage for step in begun if isinstance(step, StopStage)]:
            undone += f", and {', '.join(stopped)} runs as before"
        if isinstance(error, KeyboardInterrupt):
            raise ChangeInterruptedError("interrupted", hint=undone, exit_code=FAILED) from error
        hint = f"{error.hint}; " if error.hint else ""
        raise FogError(error.message, hint=f"{hint}{undone}", exit_code=error.exit_code) from error


def undo(begun: Sequence[Change], make: Make, remedy: str, say: Say) -> None:
    """Take changes back, newest first; FogError with the remedy if one cannot be."""
    for wave in waves([back for step in reversed(begun) for back in inverse(step)]):
        for back in wave:
            say(f"undoing: {back.describe()}")
        try:
            make(wave)
        except FogError as error:
            raise FogError(
                f"{wave[0].describe()} failed while undoing: {error.message}", hint=remedy, exit_code=FAILED
            ) from error


def together(tasks: Sequence[Callable[[threading.Event], None]]) -> None:
    """Run tasks at the same time; the first failure is raised when all have ended.

    Each is given an event that is set as soon as one has failed, so that others need not wait in vain.
    """
    failed = threading.Event()

    def run(task: Callable[[threading.Event], None]) -> None:
        try:
            task(failed)
        except BaseException:
            failed.set()
            raise

    if len(tasks) == 1:
        run(tasks[0])
        return
    # More JVMs that start at once than this only get into each other's way.
    with ThreadPoolExecutor(max_workers=2 + 2 * (os.cpu_count() or 1)) as pool:
        futures = [pool.submit(run, task) for task in tasks]
        try:
            errors = [error for future in futures if (error := future.exception()) is not None]
        except KeyboardInterrupt:
            failed.set()
            raise
    # Those that only gave up because another failed say less than the one that did.
    for error in sorted(errors, key=lambda error: isinstance(error, GaveUpError)):
        raise error


class GaveUpError(FogError):
    """A step that did not go on because another had failed."""
