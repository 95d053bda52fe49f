"""Keeps a host's CPUs from sleeping deeply: to wake up from there takes longer than a delay may be off."""

from __future__ import annotations

import contextlib
import os
import struct

DEVICE = "/dev/cpu_dma_latency"
"""A wish to the kernel's power management that holds while the file is open, and goes with the process."""


class LightSleep:
    """The wish, made and taken back. Where it cannot be made (no root, no such device) nothing happens."""

    def __init__(self, device: str = DEVICE) -> None:
        self._device = device
        self._open: int | None = None

    @property
    def wished(self) -> bool:
        """Whether the wish stands."""
        return self._open is not None

    def begin(self) -> None:
        """From now on CPUs wake up at once."""
        if self._open is not None:
            return
        with contextlib.suppress(OSError):
            opened = os.open(self._device, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(opened, struct.pack("=i", 0))
            except OSError:
                os.close(opened)
                raise
            self._open = opened

    def end(self) -> None:
        """CPUs may sleep as deeply as they like."""
        if self._open is not None:
            os.close(self._open)
            self._open = None
