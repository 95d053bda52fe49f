"""Log analysis after MEAD (section II): a parser feeds a counter of events and a matcher of patterns.

A line is `TIME LEVEL COMPONENT[PID]: MESSAGE`, parted by single spaces, for example
`2026-05-01T12:00:00.250Z WARN auth[812]: login failed for user admin`:

- TIME: a UTC time as `YYYY-MM-DDTHH:MM:SS`, up to six decimals of the seconds, `Z`; a date that exists;
- LEVEL: DEBUG, INFO, WARN, ERROR or FATAL;
- COMPONENT: 1 to 40 lower-case letters, digits, `.`, `_` and `-`, a letter first;
- PID: 1 to 10 digits;
- MESSAGE: the rest, one character or more.

The paper's parser discards what is malformed; this one marks it `"valid": false` and hands it on, so that
every record can be counted. Native expressions only, so the stages also run in Spark's real-time mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from fogapps.work import burnt
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

LINE = (
    r"(?s)\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z (DEBUG|INFO|WARN|ERROR|FATAL) "
    r"[a-z][a-z0-9._-]{0,39}\[\d{1,10}\]: .+\z"
)
"""A valid line, apart from whether the date exists."""

PATTERNS = {
    "login-failed": r"(?i)\b(login|authentication) (failed|failure)\b",
    "path-traversal": r"\.\./|%2e%2e%2f",
    "sql-injection": r"(?i)('|%27)\s*(or|union)\s+[^;]*(=|select)",
    "out-of-memory": r"(?i)\b(out of memory|oom)\b",
    "timed-out": r"(?i)\btimed? ?out\b",
    "disk-full": r"(?i)\bno space left\b|\bdisk (is )?full\b",
    "refused": r"(?i)\bconnection refused\b",
    "crash": r"(?i)\b(segfault|panic|core dumped)\b",
}
"""What the matcher looks for, besides the patterns of its options."""

INVALID = "(invalid)"
"""Under what the counter counts lines that could not be read."""

_PARSED = (
    "valid BOOLEAN, time STRING, level STRING, component STRING, pid BIGINT, message STRING, line STRING"
)
_OWN_PATTERN = "pattern."
_COUNTED_BY = ("component", "level")


def parser(lines: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Each line as JSON: valid, time, level, component, pid, message; or valid (false) and the line."""
    parted = lines.select("key", f.coalesce(f.col("value"), f.lit("")).alias("line"))
    parted = parted.withColumn("fields", f.split("line", " ", 4))
    line = f.col("line")
    time, level, origin, message = (f.get("fields", f.lit(place)) for place in range(4))
    valid = line.rlike(LINE) & time.try_cast("timestamp").isNotNull() & burnt(f.length(line), options)
    entry = f.struct(
        f.lit(True).alias("valid"),
        time.alias("time"),
        level.alias("level"),
        f.substring_index(origin, "[", 1).alias("component"),
        f.regexp_extract(origin, r"\[(\d+)\]", 1).try_cast("bigint").alias("pid"),
        message.alias("message"),
    )
    unread = f.struct(f.lit(False).alias("valid"), line.alias("line"))
    return parted.select("key", f.when(valid, f.to_json(entry)).otherwise(f.to_json(unread)).alias("value"))


def counter(entries: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """How many entries each component logged so far: the component as key, the count as JSON.

    The option `by: level` counts levels instead. Every batch writes the counts that changed; of a key the
    last one holds.
    """
    by = options.get("by", _COUNTED_BY[0])
    if by not in _COUNTED_BY:
        raise ValueError(f'the option by is {" or ".join(_COUNTED_BY)}, not "{by}"')
    entry = f.col("entry")
    what = f.when(entry["valid"], entry[by])
    counts = _read(entries).groupBy(f.coalesce(what, f.lit(INVALID)).alias(by)).count()
    return counts.select(f.col(by).alias("key"), f.to_json(f.struct(by, "count")).alias("value"))


def matcher(entries: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Each entry's component with the names of the patterns its message matches, under the entry's own key.

    An option `pattern.NAME: REGEX` adds a pattern (Java's regular expressions) or replaces one. The paper
    makes this stage heavier with more patterns; here the option `work` does, which is finer.
    """
    patterns = dict(sorted({**PATTERNS, **_own_patterns(options)}.items()))
    entry = f.col("entry")
    message = entry["message"]
    found = [f.when(message.rlike(regex), f.lit(name)) for name, regex in patterns.items()]
    known = f.coalesce(entry["valid"], f.lit(False)) & burnt(f.length(message), options)
    matched = f.struct(
        f.lit(True).alias("valid"),
        entry["component"].alias("component"),
        f.array_compact(f.array(*found)).alias("matches"),
    )
    unread = f.struct(f.lit(False).alias("valid"))
    value = f.when(known, f.to_json(matched)).otherwise(f.to_json(unread))
    return _read(entries).select("key", value.alias("value"))


def _read(entries: DataFrame) -> DataFrame:
    """Key and entry of each record, read once; null if it is not from the parser."""
    return entries.select("key", f.from_json("value", _PARSED).alias("entry"))


def _own_patterns(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_OWN_PATTERN): regex
        for name, regex in options.items()
        if name.startswith(_OWN_PATTERN)
    }
