"""The process that Spark forks its Python workers from, with what they need imported once.

A worker of Spark's own daemon imports everything after it was forked: a second of CPU for each.  Spark starts this one
in its place (`spark.python.daemon.module`), as `python -m tidelog.pipeline.worker_daemon pyspark.worker`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys

# None of them needs a thread that it started when it was imported: threads do not live through a fork.
IN_ALL = ("pyarrow", "pyarrow.compute", "tidelog.pipeline.data_source")
BY_WORKER = {
    "pyspark.worker": (
        "pyspark.sql.streaming.stateful_processor_api_client",
        "tidelog.pipeline.source.stream_reader",
        "tidelog.pipeline.sink.writer",
        "tidelog.pipeline.sink.producers",
    ),
    "pyspark.sql.worker.plan_data_source_read": (
        "tidelog.pipeline.source.batch_reader",
        "tidelog.pipeline.source.offset_reader",
    ),
    "pyspark.sql.worker.write_into_data_source": ("tidelog.pipeline.sink.writer",),
    "pyspark.sql.worker.python_streaming_sink_runner": ("tidelog.pipeline.sink.epoch_commit",),
}


def warm(worker: str) -> None:
    """Imports what the worker module and its workers will; what is not installed is left out."""
    if not worker.startswith("pyspark"):
        return
    for name in (worker, *IN_ALL, *BY_WORKER.get(worker, ())):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)


if __name__ == "__main__":
    from pyspark.daemon import manager

    warm(sys.argv[1] if len(sys.argv) > 1 else "")
    gc.freeze()  # workers collect garbage after every task: not among what they were forked with
    manager()
