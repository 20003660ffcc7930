"""Streams on Spark: topics as sources and sinks of DataFrames.  Needs `pip install 'tidelog[pipeline]'`.

Importing this package does not import Spark; its modules do, when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.pipeline.options.text import PipelineError
    from tidelog.pipeline.streams.pipeline import Pipeline
    from tidelog.pipeline.streams.stores import List, Map, Value
    from tidelog.pipeline.streams.stream import Stream
    from tidelog.pipeline.streams.table import Table

__all__ = ["List", "Map", "Pipeline", "PipelineError", "Stream", "Table", "Value"]

_HOMES = {
    "List": "tidelog.pipeline.streams.stores",
    "Map": "tidelog.pipeline.streams.stores",
    "Pipeline": "tidelog.pipeline.streams.pipeline",
    "PipelineError": "tidelog.pipeline.options.text",
    "Stream": "tidelog.pipeline.streams.stream",
    "Table": "tidelog.pipeline.streams.table",
    "Value": "tidelog.pipeline.streams.stores",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelog.pipeline' has no attribute {name!r}")
    import importlib

    if name != "PipelineError":
        from tidelog.pipeline.needs import need_spark

        need_spark()
    return getattr(importlib.import_module(_HOMES[name]), name)
