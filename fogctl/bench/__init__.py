"""Scalability benchmarks after Theodolite: how much a load needs, or how much resources can take."""
