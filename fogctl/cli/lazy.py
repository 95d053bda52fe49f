"""Commands that are imported when they are called: starting fogctl costs what the one command needs."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command as click_command

COMMANDS = {
    "init": "fogctl.cli.init:init",
    "up": "fogctl.cli.testbed:up",
    "down": "fogctl.cli.testbed:down",
    "status": "fogctl.cli.testbed:status",
    "doctor": "fogctl.cli.testbed:doctor",
    "pi": "fogctl.cli.pi:app",
    "image": "fogctl.cli.image:app",
    "exec": "fogctl.cli.testbed:execute",
    "net": "fogctl.cli.net:app",
    "board": "fogctl.cli.board:app",
    "app": "fogctl.cli.app:app",
    "trace": "fogctl.cli.trace:app",
    "metrics": "fogctl.cli.metrics:app",
    "mqtt": "fogctl.cli.mqtt:app",
    "audit": "fogctl.cli.audit:audit",
    "fault": "fogctl.cli.fault:app",
    "agent": "fogctl.cli.agent:app",
    "experiment": "fogctl.cli.experiment:app",
    "watch": "fogctl.cli.watch:watch",
    "plan": "fogctl.cli.plan:app",
    "place": "fogctl.cli.place:place",
    "bench": "fogctl.cli.bench:app",
    "schema": "fogctl.cli.schema:schema",
    "demo": "fogctl.cli.demo:demo",
}
"""Each command and where it is: a function, or a Typer app for a group of commands."""


class LazyCommands(TyperGroup):
    """A group whose commands are those of COMMANDS."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """In the order in which a new user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        found = getattr(importlib.import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
            alone.command(cmd_name, context_settings={"help_option_names": ["-h", "--help"]})(found)
            found = alone
        command = click_command(found)
        command.name = cmd_name
        return command
