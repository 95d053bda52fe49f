"""Experiments: a trace, an app, a testbed and policies. A run is a folder that can be scored again."""
