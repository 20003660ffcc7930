"""Spark looks through modules whose names begin with `pyspark_` for a `DefaultSource`: with this one,
`spark.read.format("tidelog")` works without registration."""

from tidelog.pipeline.data_source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
