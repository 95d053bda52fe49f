"""What a step is: one change to a host, as a value that can be shown, made and undone."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from fogctl.testbed.host import LinuxHost


class Step(Protocol):
    """One change to a host: a frozen dataclass of plain fields. fognetem's steps are of the same form."""

    def describe(self) -> str:
        """What the step makes, in a few words."""
        ...

    def present(self, host: LinuxHost) -> bool:
        """Whether it is there, complete."""
        ...

    def apply(self, host: LinuxHost) -> None:
        """Make it."""
        ...

    def undo(self, host: LinuxHost) -> None:
        """Remove it, or what there is of it; nothing happens if it is gone."""
        ...


@runtime_checkable
class Exclusive(Protocol):
    """A step whose place on the host may be taken by something that is not ours."""

    @property
    def place(self) -> str:
        """The name that only one thing on the host can have."""
        ...

    def taken(self, host: LinuxHost) -> str | None:
        """What occupies the place, in a few words; None if it is free."""
        ...
