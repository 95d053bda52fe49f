"""What is wrong with a file a user wrote: each problem one sentence with file, line, key and fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fogctl.config.units import quoted
from fogctl.errors import FogError

KeyPath = tuple[str | int, ...]

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend."""

    message: str
    line: int | None = None
    key: KeyPath = ()
    hint: str | None = None
    file: str | None = None
    """Where it is, when it is not the file being loaded (a matrix CSV, for example)."""

    def error(self, file: str) -> FogError:
        """This problem alone, as the exception the command line prints."""
        return FogError(
            self.message,
            file=self.file or file,
            line=self.line,
            key=key_text(self.key) or None,
            hint=self.hint,
        )


def key_text(key: Sequence[str | int]) -> str:
    """A key path as people read it: `nodes[3].board`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = quoted(part)
            word = part if shown == f'"{part}"' and part else shown
            text += f".{word}" if text else word
    return text


def refuse(file: str, problems: Iterable[Problem]) -> None:
    """Raise one FogError for all problems, one sentence a line, in the order of the file; or do nothing."""
    found = list(dict.fromkeys(problems))
    if not found:
        return
    found.sort(key=lambda problem: (problem.file is not None, problem.line or 0))
    first, *others = found
    lines = [str(problem.error(file)) for problem in others[: _SHOWN - 1]]
    if len(found) > _SHOWN:
        lines.append(f"{file}: … and {len(found) - _SHOWN} more problems")
    error = first.error(file)
    if not lines:
        raise error
    # FogError carries the place of the first problem; the others follow as whole sentences.
    head = f"{first.message} ({first.hint})" if first.hint else first.message
    raise FogError(
        "\n".join([head, *lines]), file=error.file, line=error.line, key=error.key, exit_code=error.exit_code
    )


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to `word`, if any is near."""
    if len(word) > 60:
        return None
    word = word.casefold()
    near = difflib.get_close_matches(word, list(known), n=5, cutoff=0.6)
    # Of equally near words the one whose letters differ least: "rpi4-3g" is nearer to 4g than to 8g.
    return max(near, key=lambda other: (_likeness(word, other), other), default=None)


def _likeness(word: str, other: str) -> tuple[float, int]:
    ratio = difflib.SequenceMatcher(None, other, word).ratio()
    apart = sum(abs(ord(a) - ord(b)) for a, b in zip(word, other, strict=False))
    return ratio, -apart


def choice_hint(word: str, known: Sequence[str], otherwise: str | None = None) -> str:
    """`did you mean "edge"?` followed by what is possible."""
    near = did_you_mean(word, known)
    rest = otherwise or "possible: " + ", ".join(known)
    return f'did you mean "{near}"? {rest}' if near else rest
