"""The Spark session of a pipeline: settings that suit streams on one machine, all of which may be overridden."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.pipeline.option_text import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # Uploads what changed instead of whole snapshots: the quickest commits of state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "true",
}
SHUFFLE = "spark.sql.shuffle.partitions"
LOCAL = "local[*]"


def session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session if there is one, else a new one.  spark-submit decides the master where it started us."""
    need_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName(name)
    if master is not None or "spark.master" not in _submitted():
        builder = builder.master(master or LOCAL)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    if SHUFFLE not in (settings or {}):
        builder = builder.config(SHUFFLE, str(_shuffle_partitions(master)))
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _submitted() -> dict[str, str]:
    from pyspark import SparkConf

    return dict(SparkConf().getAll()) if os.environ.get("PYSPARK_GATEWAY_PORT") else {}


def _shuffle_partitions(master: str | None) -> int:
    """Each partition of state costs a task in every micro-batch: as many as there are cores, no more."""
    cores = os.cpu_count() or 1
    if master is None or master == LOCAL:
        return cores
    if master.startswith("local["):
        count = master[len("local[") :].split(",")[0].rstrip("]")
        return int(count) if count.isdigit() else cores
    return max(8, cores)


def need_spark() -> None:
    """One clear line where the packages of the pipeline are not installed."""
    import importlib.util

    missing = [one for one in ("pyspark", "pyarrow") if importlib.util.find_spec(one) is None]
    if missing:
        raise PipelineError(
            f"pipelines need {' and '.join(missing)}, which is not installed: pip install 'tidelog[pipeline]'"
        )
