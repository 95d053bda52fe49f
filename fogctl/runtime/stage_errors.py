"""What went wrong in a stage, in one sentence, with file and line where the app's own code did it. Pure."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

LONGEST = 500


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a stage failed."""

    sentence: str
    by_app: bool
    """Whether the app's own code or data did it, so that trying again would not help."""


def explain(error: BaseException, code: str, shown: str | None = None) -> Failure:
    """Why a stage failed; `code` is the app's file, which the sentence calls `shown`."""
    text = str(error)
    shown = shown or code
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == code]
    if frames:
        return Failure(f"{shown}:{frames[-1].lineno}: {type(error).__name__}: {_first_line(text)}", True)
    return _in_worker(text, code, shown) or _in_expression(text, code, shown) or _elsewhere(error, text)


def _in_worker(text: str, code: str, shown: str) -> Failure | None:
    """A Python function that raised on a record: its traceback stands in what the JVM says."""
    lines = text.splitlines()
    place = next((n for n, line in enumerate(lines) if f'File "{code}", line' in line), None)
    if place is None:
        return None
    number, said = "?", ""
    for line in lines[place:]:
        if found := re.search(rf'File "{re.escape(code)}", line (\d+)', line):
            number = found[1]
        # The traceback ends with the first line that is not indented: the exception itself.
        if line.strip() and not line.startswith((" ", "\t")):
            said = line.strip()
            break
    return Failure(f"{shown}:{number}: {said}"[:LONGEST], True)


def _in_expression(text: str, code: str, shown: str) -> Failure | None:
    """A native expression that failed on a record: Spark says which call in the app made it."""
    found = re.search(rf"was called from\s+{re.escape(code)}:(\d+)", text)
    if found is None:
        return None
    return Failure(f"{shown}:{found[1]}: {_condition(text) or _first_line(text)}"[:LONGEST], True)


def _elsewhere(error: BaseException, text: str) -> Failure:
    lines = text.splitlines()
    # A failure inside the JVM: its own words stand in the second line, behind a colon.
    inside = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), None)
    sentence = _condition(text) or inside or (lines[0] if lines else type(error).__name__)
    return Failure(sentence[:LONGEST], isinstance(error, ValueError))


def _condition(text: str) -> str | None:
    """What Spark itself calls the failure, like `[CAST_INVALID_INPUT] The value …`: the innermost one."""
    found = re.findall(
        r"\[[A-Z][A-Z_.]{5,}\] [^\n]*", re.sub(r"(\[STREAM_FAILED\])[^\n]*?: (?=\[)", r"\1\n", text)
    )
    named = [each for each in found if not each.startswith("[STREAM_FAILED]")]
    return named[0] if named else None


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
