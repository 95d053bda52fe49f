"""The live view: a testbed or a run at this moment, in the terminal or in a browser."""
