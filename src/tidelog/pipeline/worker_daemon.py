"""The process from which Spark forks its Python workers, with their imports done once.

A worker of Spark's own daemon imports everything after the fork, which costs a second of CPU per worker.  Spark starts this
daemon in its place (`spark.python.daemon.module`), as `python -m tidelog.pipeline.worker_daemon pyspark.worker`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
import traceback
from types import SimpleNamespace

# None of these modules starts a thread when it is imported: threads do not survive a fork.
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
    """Imports the worker module and what its workers need; modules that are not installed are left out."""
    if not worker.startswith("pyspark"):
        return
    for name in (worker, *IN_ALL, *BY_WORKER.get(worker, ())):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)


def print_error() -> None:
    """In place of `traceback.print_exc`: a worker whose query was stopped cannot reach Spark any more, and ends quietly.
    One write: Spark may kill the worker meanwhile, and half a traceback helps nobody."""
    if not isinstance(sys.exc_info()[1], ConnectionError | EOFError):
        sys.stderr.write(traceback.format_exc())


if __name__ == "__main__":
    from pyspark import daemon

    warm(sys.argv[1] if len(sys.argv) > 1 else "")
    gc.freeze()  # workers collect garbage after every task: they need not look at what existed before the fork
    # The daemon uses `traceback` in one place only: where a worker that it has just forked fails.
    vars(daemon)["traceback"] = SimpleNamespace(print_exc=print_error, format_exc=traceback.format_exc)
    daemon.manager()
