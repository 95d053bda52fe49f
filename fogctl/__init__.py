"""fogctl: an edge/fog testbed of Raspberry Pis, real or emulated on one Linux host."""

__version__ = "0.1.0"
