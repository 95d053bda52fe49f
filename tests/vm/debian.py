"""Where the guest's Debian comes from: this host's apt sources, or the file named by FOGCTL_VM_SOURCES."""

from __future__ import annotations

from fogctl.errors import FogError
from fogctl.image import debian
from fogctl.image.debian import Sources

SOURCES_VARIABLE = "FOGCTL_VM_SOURCES"

__all__ = ["SOURCES_VARIABLE", "NoDebianError", "Sources", "host_sources"]


class NoDebianError(Exception):
    """The host cannot fetch Debian packages; the message says what would help."""


def host_sources() -> Sources:
    """The Debian release to build the guest of."""
    try:
        return debian.host_sources(SOURCES_VARIABLE)
    except FogError as reason:
        raise NoDebianError(str(reason)) from reason
