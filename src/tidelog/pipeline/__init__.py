"""Streams on Spark: topics as sources and sinks of DataFrames.  Needs `pip install 'tidelog[pipeline]'`.

Importing this package does not import Spark; its modules do, when they are first used.
"""
