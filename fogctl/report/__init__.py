"""The report of a run: one page that opens offline, made from the run's folder alone."""
