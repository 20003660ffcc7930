"""Checks that the packages which pipelines need are installed."""

from __future__ import annotations

import importlib.util

from tidelog.extras import need
from tidelog.pipeline.options.text import PipelineError


def need_spark(*others: str) -> None:
    """Raises a PipelineError of one line if a package is not installed."""
    missing = [
        package for package in ("pyspark", "pyarrow", *others) if importlib.util.find_spec(package) is None
    ]
    if missing:
        names = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        raise PipelineError(f"pipelines need {names}, not installed here: pip install 'tidelog[pipeline]'")


def need_format(name: str) -> None:
    """What reads and writes values of this format."""
    if name == "avro":
        need("fastavro", "Avro schemas")
    elif name == "protobuf":
        need("google.protobuf", "Protobuf schemas")
