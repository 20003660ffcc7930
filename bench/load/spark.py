"""Topics in Spark: Tidelog's source and exactly-once sink beside Spark's Kafka connector, both on a Tidelog broker.

What stands in the column of Apache Kafka is the connector; its sink is at least once."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa

from bench import spark_connector
from bench.admin import Admin
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System, tidelog
from tidelog import Producer

SECONDS_MAX = 1800
ROWS_AT_ONCE = 100_000
PARTITIONS = 2


def run(system: System, scale: Scale) -> Samples:
    jars: list[str] = []
    if system.name != "tidelog":
        if reason := spark_connector.resolve():
            raise RuntimeError(f"without Spark's Kafka connector: {reason}")
        jars = [str(one) for one in spark_connector.jars()]
    with tidelog(system.folder).running() as broker:
        with Admin(broker.port) as admin:
            for name in ("bench-read", "bench-write", "bench-paced", "bench-paced-copy"):
                admin.create_topic(name, PARTITIONS)
        _fill(broker.bootstrap, "bench-read", scale.spark_records)
        command = [sys.executable, "-m", "bench.spark_job", "--via", system.name]
        command += ["--bootstrap", broker.bootstrap, "--broker-pid", str(broker.pid)]
        command += ["--records", str(scale.spark_records), "--rounds", str(scale.rounds)]
        command += ["--latency-seconds", str(scale.latency_seconds), "--jars", ",".join(jars)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode:
            raise RuntimeError(f"the Spark job failed: {done.stderr[-3000:]}")
    samples: Samples = json.loads(done.stdout.strip().splitlines()[-1])
    return samples


def _fill(bootstrap: str, topic: str, records: int) -> None:
    """Batches as a busy producer makes them."""
    value = b"x" * 100
    with Producer(bootstrap_servers=bootstrap) as producer:
        for start in range(0, records, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, records - start)
            keys = [b"%d" % one for one in range(start, start + count)]
            producer.send_batch(topic, pa.table({"key": keys, "value": [value] * count})).get(120)


SCENARIO = Scenario(
    "spark",
    (
        Row("spark-read", "Spark, batch read, 100 B", "records/s", Goal(ratio_least=1.5)),
        Row("spark-read-broker", "  CPU of a record: broker", "us"),
        Row("spark-read-python", "  fetch and decode", "us"),
        Row("spark-read-jvm", "  Spark", "us"),
        Row("spark-stream", "Spark, stream read, 100 B", "records/s", Goal(ratio_least=1.0)),
        Row(
            "spark-write",
            "Spark, exactly-once write, 100 B (connector: at least once)",
            "records/s",
            Goal(ratio_least=3),
        ),
        Row("spark-write-broker", "  CPU of a record: broker", "us"),
        Row("spark-write-python", "  encode and send", "us"),
        Row("spark-write-jvm", "  Spark", "us"),
        Row("spark-batch-p50", "Spark, micro-batch source to sink, p50", "ms", Goal(ratio_most=1.2)),
        Row("spark-batch-p99", "  p99", "ms"),
    ),
    run,
)
