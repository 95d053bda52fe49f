"""The `fogctl` command: each sub-command lives in a module of its own."""

from fogctl.cli.main import main

__all__ = ["main"]
