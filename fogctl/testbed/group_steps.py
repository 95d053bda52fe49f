"""Steps that make control groups and limit what runs inside them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.testbed import cgroups
from fogctl.testbed.host import LinuxHost


@dataclass(frozen=True, slots=True)
class EnableController:
    """A controller the version 2 root group hands to the groups below it."""

    root: str
    controller: str

    def describe(self) -> str:
        """What the step makes."""
        return f"controller {self.controller} for the groups in {self.root}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether the root hands it on."""
        return self.controller in Path(self.root, "cgroup.subtree_control").read_text().split()

    def apply(self, host: LinuxHost) -> None:
        """Hand it on."""
        try:
            host.write_kernel(f"{self.root}/cgroup.subtree_control", f"+{self.controller}")
        except FogError as error:
            raise FogError(
                f"control group {self.root} cannot hand on the {self.controller} controller: {error.message}",
                hint="inside a container, run fogctl on the host instead, or use kind: sim",
                exit_code=FAILED,
            ) from error

    def undo(self, host: LinuxHost) -> None:
        """Keep it to the root again, unless somebody below passes it on by now."""
        if self.present(host):
            with contextlib.suppress(FogError):
                host.write_kernel(f"{self.root}/cgroup.subtree_control", f"-{self.controller}")


@dataclass(frozen=True, slots=True)
class AddGroup:
    """A control group; version 2 groups that have groups below hand them controllers."""

    path: str
    delegate: tuple[str, ...] = ()

    def describe(self) -> str:
        """What the step makes."""
        return f"control group {self.path}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether it exists and hands on its controllers."""
        if not self.delegate:
            return Path(self.path).is_dir()
        try:
            handed_on = Path(self.path, "cgroup.subtree_control").read_text().split()
        except FileNotFoundError:
            return False
        return set(self.delegate) <= set(handed_on)

    @property
    def place(self) -> str:
        """The name that only one thing on the host can have."""
        return self.path

    def taken(self, host: LinuxHost) -> str | None:  # noqa: ARG002
        """A group of the same name."""
        return self.describe() if Path(self.path).exists() else None

    def apply(self, host: LinuxHost) -> None:
        """Make it."""
        host.add_group(self.path, self.delegate)

    def undo(self, host: LinuxHost) -> None:
        """End everything inside and remove it."""
        host.remove_group(self.path)


@dataclass(frozen=True, slots=True)
class LimitCpu:
    """A CPU quota, in microseconds per 100 ms."""

    group: str
    version: int
    quota_us: int

    def describe(self) -> str:
        """What the step makes."""
        return f"CPU quota {self.quota_us / cgroups.PERIOD_US:.1%} of a core for {self.group}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether exactly this quota is set."""
        name = cgroups.cpu_files(self.version, None)[-1][0]
        try:
            return cgroups.read_quota(self.version, Path(self.group, name).read_text()) == self.quota_us
        except FileNotFoundError:
            return False

    def apply(self, host: LinuxHost) -> None:
        """Set it."""
        for name, text in cgroups.cpu_files(self.version, self.quota_us):
            host.write_kernel(f"{self.group}/{name}", text)

    def undo(self, host: LinuxHost) -> None:
        """Lift it."""
        if Path(self.group).is_dir():
            for name, text in cgroups.cpu_files(self.version, None):
                host.write_kernel(f"{self.group}/{name}", text)


@dataclass(frozen=True, slots=True)
class LimitMemory:
    """A memory limit, swap included."""

    group: str
    version: int
    limit_bytes: int

    def describe(self) -> str:
        """What the step makes."""
        return f"memory limit {self.limit_bytes / 2**20:.0f} MiB for {self.group}"

    def present(self, host: LinuxHost) -> bool:  # noqa: ARG002
        """Whether this limit is set; the kernel rounds it down to whole pages."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        try:
            limit = cgroups.read_limit(Path(self.group, name).read_text())
        except FileNotFoundError:
            return False
        page = os.sysconf("SC_PAGE_SIZE")
        return limit is not None and limit // page == self.limit_bytes // page

    def apply(self, host: LinuxHost) -> None:
        """Set it."""
        self._write(host, self.limit_bytes)

    def undo(self, host: LinuxHost) -> None:
        """Lift it."""
        if Path(self.group).is_dir():
            self._write(host, None)

    def _write(self, host: LinuxHost, limit: int | None) -> None:
        for name, text, needed in cgroups.memory_files(self.version, limit):
            if needed or Path(f"{self.group}/{name}").exists():
                host.write_kernel(f"{self.group}/{name}", text)
