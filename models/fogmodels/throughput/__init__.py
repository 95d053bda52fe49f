"""Throughput of a stage against replicas, distance, batch size and CPU share."""

from fogmodels.throughput.advice import Configuration, Option, Prices, compare_options
from fogmodels.throughput.model import ThroughputModel, fit
from fogmodels.throughput.nodes import NodeSet, nearest_set, tightest_set
from fogmodels.throughput.samples import Sample

__all__ = [
    "Configuration",
    "NodeSet",
    "Option",
    "Prices",
    "Sample",
    "ThroughputModel",
    "compare_options",
    "fit",
    "nearest_set",
    "tightest_set",
]
