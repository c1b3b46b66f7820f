"""The papers' experiments, and a synthetic world to make them in.

An experiment is a function `run(*, seed, progress, …) -> Report`; `gcs.simulate.report` shows a report as
tables on a terminal, as JSON, or as a plot.
"""
