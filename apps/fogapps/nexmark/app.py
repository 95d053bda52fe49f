"""Nexmark's queries 1, 2, 5, 8 and 11 over one stream of an auction house's events.

A record's value is JSON as `fogapps.nexmark.events` makes it: `{"type": "bid", "time": "…", "auction": 1007,
"bidder": 1001, "price": 1230}`, or of type `auction` or `person`; others are left out. Prices are in cents.
The option `time: arrival` counts when a record arrived instead of when it says it happened, so that data at
rest can be sent again and again. Native expressions only.
"""

from __future__ import annotations

from collections.abc import Mapping

from fogapps.windows import Aggregate
from fogapps.windows_options import event_time, hop, iso, seconds, timely, windowed
from fogapps.work import burnt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

DOLLAR_TO_EURO = 0.908
EVERY_AUCTION = 123
"""Query 2 selects the auctions whose number is a multiple."""

_EVENT = (
    "type STRING, time STRING, id BIGINT, name STRING, seller BIGINT, "
    "auction BIGINT, bidder BIGINT, price BIGINT"
)


def q1(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Currency conversion: every bid with its price in euros, under the event's key."""
    bids = _bids(events, options)
    price = f.col("price") * f.lit(DOLLAR_TO_EURO)
    bid = f.struct("auction", "bidder", price.alias("price"), iso(f.col("time")).alias("time"))
    return bids.select("key", f.to_json(bid).alias("value"))


def q2(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Selection: auction and price of the bids for every 123rd auction, under the event's key."""
    some = _bids(events, options).filter(f.col("auction") % EVERY_AUCTION == 0)
    return some.select("key", f.to_json(f.struct("auction", "price")).alias("value"))


def q5(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Hot items: the auctions with the most bids of each window (10 s, every 2 s), all of them if equal."""
    bids = timely(_bids(events, options), options, 2.0)
    counts = windowed(bids, options, ["auction"], hop(options, 10.0, 2.0), {"bids": Aggregate("count")})
    counted = f.collect_list(f.struct("auction", "bids"))
    # All counts of a window come in one batch, that in which it ends: the list is made and gone in it.
    hot = counts.groupBy("window").agg(f.max("bids").alias("most"), counted.alias("counted"))
    top = f.filter("counted", lambda each: each["bids"] == f.col("most"))
    auctions = f.array_sort(f.transform(top, lambda each: each["auction"]))
    result = f.struct(*_edges(), auctions.alias("auctions"), f.col("most").alias("bids"))
    return hot.select(iso(f.col("window")["start"]).alias("key"), f.to_json(result).alias("value"))


def q8(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """New users: who registered and opened an auction within the same window (10 s).

    The join of persons and sellers is one aggregate here, because both come in one stream: a person's events
    of a window are brought together by id, and those with both kinds are the join.
    """
    event = _read(events, options).filter(f.col("type").isin("person", "auction"))
    person = f.col("type") == "person"
    seen = event.select(
        f.when(person, f.col("id")).otherwise(f.col("seller")).alias("person"),
        f.when(person, f.col("name")).alias("name"),
        f.when(~person, f.lit(1)).alias("auction"),
        "time",
    ).filter("person IS NOT NULL")
    size = f"{seconds(options, 'window_s', 10.0)} seconds"
    joined = (
        timely(seen, options, 2.0)
        .groupBy(f.window("time", size).alias("window"), "person")
        .agg(f.min("name").alias("name"), f.count("auction").alias("auctions"))
        .filter("name IS NOT NULL AND auctions > 0")
    )
    result = f.struct(*_edges(), f.col("person").alias("id"), "name")
    return joined.select(f.col("person").cast("string").alias("key"), f.to_json(result).alias("value"))


def q11(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """User sessions: how many bids each person made before a pause of `gap_s` (10)."""
    gap = f"{seconds(options, 'gap_s', 10.0)} seconds"
    sessions = (
        timely(_bids(events, options), options, 2.0)
        .groupBy(f.session_window("time", gap).alias("window"), "bidder")
        .agg(f.count("*").alias("bids"))
    )
    result = f.struct("bidder", "bids", *_edges())
    return sessions.select(f.col("bidder").cast("string").alias("key"), f.to_json(result).alias("value"))


def _read(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Events as columns, with the time that counts; those without one are left out."""
    parsed = events.select("key", f.from_json("value", _EVENT).alias("event"), "timestamp")
    event = f.col("event")
    time = event_time(options, event["time"].try_cast("timestamp"), f.col("timestamp"))
    others = [event[name].alias(name) for name in ("type", "id", "name", "seller")]
    bid = [event[name].alias(name) for name in ("auction", "bidder", "price")]
    return parsed.select("key", time.alias("time"), *others, *bid).filter("time IS NOT NULL")


def _bids(events: DataFrame, options: Mapping[str, str]) -> DataFrame:
    whole = (f.col("type") == "bid") & f.col("auction").isNotNull() & f.col("bidder").isNotNull()
    return _read(events, options).filter(whole & f.col("price").isNotNull() & burnt(f.col("price"), options))


def _edges() -> tuple[Column, Column]:
    window = f.col("window")
    return iso(window["start"]).alias("from"), iso(window["end"]).alias("to")
