"""A pytest plugin for the pytest inside the guest: one line of JSON for each finished test."""

from __future__ import annotations

import json
import sys

import pytest

MARK = "@guest-report "


class _Reporter:
    """Adds up a test's three phases; the first that did not pass decides."""

    def __init__(self) -> None:
        self.outcome: dict[str, tuple[str, str]] = {}
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if not report.passed and name not in self.outcome:
            text = report.longreprtext
            if isinstance(report.longrepr, tuple):
                text = report.longrepr[2].removeprefix("Skipped: ")
            self.outcome[name] = (
                report.outcome,
                "\n".join([text, *(f"{t}\n{c}" for t, c in report.sections)]),
            )
        if report.when == "teardown":
            outcome, text = self.outcome.get(name, ("passed", ""))
            said = {"test": name, "outcome": outcome, "seconds": round(self.seconds[name], 2), "text": text}
            # pytest has put its own capture in place of stdout; this one is the terminal.
            print(f"\n{MARK}{json.dumps(said)}", file=sys.__stdout__, flush=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Reporter())
