"""The Spark session of a pipeline, with settings for streams on one machine; all of them can be overridden."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipeline.java import use_java
from tidelog.pipeline.needs import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OF_STATE = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # Uploads changes instead of whole snapshots: the fastest way to commit state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
SETTINGS = {
    **OF_STATE,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "true",
    # Small messages between Spark and Python have less latency without TCP.
    "spark.python.unix.domain.socket.enabled": "true",
}
ON_THIS_MACHINE = {
    # Workers are forked with their imports done.  Elsewhere executors may have this package only after their start.
    "spark.python.daemon.module": "tidelog.pipeline.worker_daemon",
    # Each file of a checkpoint that Hadoop writes to a local disk costs a `chmod` process, and so does the checksum
    # beside it.  State has checksums of Spark's own; the small logs of offsets and commits go without.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
# Before Spark reads its level from here it says what a stranger cannot use.
QUIET = Path(__file__).parents[1] / "log4j2.properties"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SHUFFLE = "spark.sql.shuffle.partitions"
LOCAL = "local[*]"


def session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session if there is one, otherwise a new one.  Under spark-submit, spark-submit decides the master."""
    need_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is not None or not submitted:
        builder = builder.master(master or LOCAL)
    local = (master or LOCAL).startswith("local") and not submitted
    for key, value in {**SETTINGS, **(ON_THIS_MACHINE if local else {}), **(settings or {})}.items():
        builder = builder.config(key, value)
    if not submitted and JAVA_OPTIONS not in (settings or {}) and "SPARK_CONF_DIR" not in os.environ:
        builder = builder.config(JAVA_OPTIONS, f'"-Dlog4j2.configurationFile={QUIET.as_uri()}"')
    if SHUFFLE not in (settings or {}):
        builder = builder.config(SHUFFLE, str(_shuffle_partitions(master)))
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _shuffle_partitions(master: str | None) -> int:
    """One partition per core, since each partition of state costs a task in every micro-batch."""
    cores = os.cpu_count() or 1
    if master is None or master == LOCAL:
        return cores
    if master.startswith("local["):
        count = master[len("local[") :].split(",")[0].rstrip("]")
        return int(count) if count.isdigit() else cores
    return max(8, cores)


@contextmanager
def state_settings(spark: SparkSession) -> Iterator[None]:
    """Sets the state settings while a query starts, because the query keeps the settings of that moment: so state is in
    RocksDB even in a session that the user created."""
    before = {name: spark.conf.get(name, None) for name in OF_STATE}
    for name, value in OF_STATE.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
