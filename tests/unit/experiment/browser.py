"""A headless Chromium for tests of pages: the document after its scripts ran, and what the console said."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass(frozen=True, slots=True)
class Seen:
    """A page as the browser has it."""

    dom: str
    console: list[str]


def visit(url: str, profile: Path, *, wait_ms: int = 2000) -> Seen:
    """Load a page without any network but loopback and files, and wait for its scripts."""
    assert CHROMIUM is not None
    ran = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--enable-logging=stderr", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1"),
            *(f"--user-data-dir={profile}", f"--virtual-time-budget={wait_ms}", "--dump-dom", url),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    return Seen(ran.stdout, console)


class Cells(HTMLParser):
    """The table cells that name their score: key, exact value, and the text shown."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, tuple[str | None, str]] = {}
        self._key: str | None = None
        self._value: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "td" and given.get("data-key"):
            self._key, self._value = given["data-key"], given.get("data-value")
            self.found[str(self._key)] = (self._value, "")

    def handle_data(self, data: str) -> None:
        if self._key is not None:
            self.found[self._key] = (self._value, self.found[self._key][1] + data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._key = None


def attribute(dom: str, name: str) -> str | None:
    """The value of an attribute of the document's root."""
    found = re.search(rf"<html[^>]*\b{name}=\"([^\"]*)\"", dom)
    return found[1] if found else None
