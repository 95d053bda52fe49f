"""Steps that make folders and files."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.testbed.host import LinuxHost


@dataclass(frozen=True, slots=True)
class MakeSharedFolder:
    """A folder other programs use too: made if missing, removed by the last of our testbeds if empty."""

    path: str

    def describe(self) -> str:
        """What the step makes."""
        return f"folder {self.path}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether the folder exists."""
        return Path(self.path).is_dir()

    def apply(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Make it."""
        Path(self.path).mkdir(mode=0o755)

    def undo(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Remove it unless somebody uses it."""
        with contextlib.suppress(OSError):
            Path(self.path).rmdir()


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """A folder of our own."""

    path: str

    def describe(self) -> str:
        """What the step makes."""
        return f"folder {self.path}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether it exists."""
        return Path(self.path).is_dir()

    @property
    def place(self) -> str:
        """The name that only one thing on the host can have."""
        return self.path

    def taken(self, host: LinuxHost) -> str | None:  # noqa: ARG002
        """Anything of that name."""
        return self.describe() if _there(self.path) else None

    def apply(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Make it."""
        Path(self.path).mkdir(mode=0o755)

    def undo(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Remove it; what others put inside is theirs to move."""
        try:
            Path(self.path).rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            inside = sorted(entry.name for entry in Path(self.path).iterdir())
            raise FogError(
                f"{self.path} holds files that fogctl did not make ({', '.join(inside)})",
                hint="move them away, then run fogctl down again",
                exit_code=FAILED,
            ) from None


@dataclass(frozen=True, slots=True)
class WriteFile:
    """A file of our own with this content."""

    path: str
    content: str

    def describe(self) -> str:
        """What the step makes."""
        return f"file {self.path}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether it has this content."""
        try:
            return Path(self.path).read_text() == self.content
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return False

    @property
    def place(self) -> str:
        """The name that only one thing on the host can have."""
        return self.path

    def taken(self, host: LinuxHost) -> str | None:  # noqa: ARG002
        """Anything of that name."""
        return self.describe() if _there(self.path) else None

    def apply(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Write it."""
        Path(self.path).write_text(self.content)

    def undo(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Remove it."""
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LinkFile:
    """A symbolic link of our own."""

    path: str
    target: str

    def describe(self) -> str:
        """What the step makes."""
        return f"file {self.path} -> {self.target}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether it points there."""
        return Path(self.path).is_symlink() and str(Path(self.path).readlink()) == self.target

    @property
    def place(self) -> str:
        """The name that only one thing on the host can have."""
        return self.path

    def taken(self, host: LinuxHost) -> str | None:  # noqa: ARG002
        """Anything of that name."""
        return self.describe() if _there(self.path) else None

    def apply(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Make it."""
        Path(self.path).symlink_to(self.target)

    def undo(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Remove it."""
        Path(self.path).unlink(missing_ok=True)


def _there(path: str) -> bool:
    """Whether anything has that name, a dangling link included."""
    return os.path.lexists(path)
