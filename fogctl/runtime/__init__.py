"""Running streaming apps on a testbed: the broker, Spark pools, stages and what they report."""
