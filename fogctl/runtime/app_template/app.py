"""The stages of my-app: each a function from its inputs and options to a DataFrame with key and value."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def words(lines: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """How many words of at least `least` letters each line has, under the line's own key."""
    least = int(options.get("least", "1"))
    text = f.coalesce(f.col("value"), f.lit(""))
    counted = f.size(f.filter(f.split(text, r"\s+"), lambda word: f.length(word) >= least))
    return lines.select("key", counted.cast("string").alias("value"))
