"""The packages that pipelines need beyond the client, asked for before they are missed."""

from __future__ import annotations

import importlib.util

from tidelog.extras import need
from tidelog.pipeline.option_text import PipelineError


def need_spark(*others: str) -> None:
    """One clear line where the packages of the pipeline are not installed."""
    missing = [one for one in ("pyspark", "pyarrow", *others) if importlib.util.find_spec(one) is None]
    if missing:
        raise PipelineError(
            f"pipelines need {' and '.join(missing)}, not installed here: pip install 'tidelog[pipeline]'"
        )


def need_format(name: str) -> None:
    """What reads and writes values of this format."""
    if name == "avro":
        need("fastavro", "Avro schemas")
    elif name == "protobuf":
        need("google.protobuf", "Protobuf schemas")
