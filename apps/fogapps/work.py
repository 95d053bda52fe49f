"""CPU work of adjustable size, as a native expression: what makes a light app heavy enough to measure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as f


def steps(options: Mapping[str, str]) -> int:
    """The option `work`: how many steps to burn for each record; none if it is not given."""
    given = options.get("work", "0")
    if not (given.isascii() and given.isdigit()) or int(given) > 10_000_000:
        raise ValueError(f'the option work is a whole number from 0 to 10000000, not "{given}"')
    return int(given)


def burnt(seed: Column, options: Mapping[str, str]) -> Column:
    """Burn CPU: a chain of that many sines, begun with the record's own data; then true, whatever it is.

    Use it in a condition, so that Spark cannot leave it out; and only once, because Spark may evaluate it
    wherever it stands.
    """
    count = steps(options)
    if count == 0:
        return f.lit(True)
    # The seed is the chain's first link, not part of each: however dear it is, it is computed once.
    first = f.coalesce(seed.cast("double"), f.lit(0.5))
    last = f.aggregate(f.sequence(f.lit(1), f.lit(count)), first, lambda link, x: f.sin(link + x))
    # Always true, also if a link is no number; but only who follows the chain can know.
    return last != f.lit(-math.inf)
