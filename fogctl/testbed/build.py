"""Making the host what a plan says, and undoing it: the ledger is written before every change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fognetem import NetemError

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.testbed import processes
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.steps import SHARED, STEP_TYPES, AddGroup, AddNamespace, Exclusive, Step, goes_with, holds

Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and what is being done."""


def silent(done: int, total: int, doing: str) -> None:
    """No progress shown."""


def outdated(ledger: Ledger, wanted: Iterable[Step]) -> list[Step]:
    """What the ledger holds and the plan does not, newest first."""
    keep = set(wanted)
    return [step for step in reversed(ledger.steps) if step not in keep]


def missing(wanted: Iterable[Step], host: LinuxHost) -> list[Step]:
    """What the plan wants and the host lacks."""
    return [step for step in wanted if not step.present(host)]


def refuse_foreign(wanted: Iterable[Step], ledger: Ledger, host: LinuxHost) -> None:
    """Refuse if somebody else's object stands where one of ours would be made; nothing is touched."""
    for step in wanted:
        if isinstance(step, Exclusive) and not ledger.owns(step.place) and (found := step.taken(host)):
            raise FogError(
                f"{found} exists and was not made by fogctl, so it is left alone and nothing was changed",
                hint="remove it yourself if it is a leftover, or give the testbed another name",
                exit_code=REFUSED,
            )


def make(
    wanted: Sequence[Step],
    ledger: Ledger,
    host: LinuxHost,
    progress: Progress = silent,
    siblings: frozenset[Step] = frozenset(),
) -> list[Step]:
    """Make what is missing, in order; answers what was made.

    `siblings` are the steps other testbeds hold: a shared one among them that is already there becomes ours
    too, so that the last testbed to go removes it.
    """
    made: list[Step] = []
    for number, step in enumerate(wanted):
        progress(number, len(wanted), step.describe())
        refuse_foreign([step], ledger, host)
        if step.present(host):
            if step in siblings and isinstance(step, SHARED):
                ledger.record(step)
            continue
        if step in ledger:
            if isinstance(step, STEP_TYPES):
                step.undo(host)  # whatever a killed fogctl left of it; fognetem's steps mend themselves
        else:
            ledger.record(step)
        try:
            step.apply(host)
        except FileExistsError as error:
            ledger.forget(step)  # made by somebody else since we looked: not ours to undo
            if isinstance(step, SHARED):
                continue
            raise FogError(
                f"{step.describe()} was made by somebody else just now", exit_code=REFUSED
            ) from error
        except OSError as error:
            raise FogError(
                f"could not make {step.describe()}: {error.strerror or error}",
                hint="fogctl down undoes what was made; fogctl doctor says what this host lacks",
                exit_code=FAILED,
            ) from error
        made.append(step)
    progress(len(wanted), len(wanted), "done")
    return made


def undo(steps: Sequence[Step], ledger: Ledger, host: LinuxHost, progress: Progress = silent) -> None:
    """Undo steps in the order given; one that fails does not stop the others, but is reported at the end."""
    going = {held for step in steps if (held := holds(step))}
    groups = [step.path for step in steps if isinstance(step, AddGroup)]
    inodes = (host.namespace_inode(step.name) for step in steps if isinstance(step, AddNamespace))
    processes.end(groups, {inode for inode in inodes if inode is not None})
    failures: list[str] = []
    for number, step in enumerate(steps):
        progress(number, len(steps), f"removing {step.describe()}")
        if goes_with(step) not in going:
            try:
                step.undo(host)
            except (FogError, NetemError, OSError) as error:
                failures.append(f"{step.describe()}: {error}")
                continue
        ledger.forget(step)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise FogError(
            f"could not remove {failures[0]}{more}", hint="mend that, then run it again", exit_code=FAILED
        )
    progress(len(steps), len(steps), "done")
