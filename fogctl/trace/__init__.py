"""Traces of taxi rides: made from a seed or read from files, cleaned, described, and replayed on schedule."""

from fogctl.trace.clean import Cleaned, clean
from fogctl.trace.make import MakeOptions, make
from fogctl.trace.readers import read
from fogctl.trace.rides import Rides
from fogctl.trace.writers import write

__all__ = ["Cleaned", "MakeOptions", "Rides", "clean", "make", "read", "write"]
