"""Injects numbered records as fast as wanted, from several processes: what capacity tests need."""

from fogctl.inject.flood import Injected, Load, inject
from fogctl.inject.senders import Library

__all__ = ["Injected", "Library", "Load", "inject"]
