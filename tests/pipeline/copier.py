"""A driver that can be killed: two streams from one topic, a copy of every record and a count by window, each written
exactly once.  Ends when one of them fails, or never."""

from __future__ import annotations

import argparse
import os
import sys


def main() -> None:
    given = argparse.ArgumentParser()
    for option in ("bootstrap", "source", "copy", "counts", "checkpoint"):
        given.add_argument(f"--{option}", required=True)
    given.add_argument("--transaction-timeout-ms", required=True)
    options = given.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    from tidelog.pipeline.streams.session import ON_THIS_MACHINE, SETTINGS

    builder = SparkSession.builder.master("local[2,4]").appName("copier")
    for key, value in {**SETTINGS, **ON_THIS_MACHINE}.items():
        builder = builder.config(key, value)
    spark = (
        builder.config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", f"{options.checkpoint}/local")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    records = (
        spark.readStream.format("tidelog")
        .option("bootstrap", options.bootstrap)
        .option("topics", options.source)
        .option("starting", "earliest")
        .option("maxRecordsPerTrigger", "500")
        .option("groupId", f"{options.source}-copier")
        .load()
    )
    counted = (
        records.withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "10 seconds"), F.col("key"))
        .count()
        .selectExpr(
            "key",
            "concat_ws('/', unix_timestamp(window.start), cast(key as string), count) as value",
        )
    )
    for name, rows in (("copy", records.select("key", "value")), ("counts", counted)):
        (
            rows.writeStream.format("tidelog")
            .queryName(name)
            .option("bootstrap", options.bootstrap)
            .option("topic", getattr(options, name))
            .option("transactionTimeoutMs", options.transaction_timeout_ms)
            .option("checkpointLocation", f"{options.checkpoint}/{name}")
            .start()
        )
    print("running", flush=True)
    spark.streams.awaitAnyTermination()
    for query in spark.streams.active:
        query.stop()


if __name__ == "__main__":
    main()
