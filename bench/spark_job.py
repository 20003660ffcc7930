"""One Spark driver that reads and writes topics, through Tidelog's source and sink or Spark's Kafka connector, and says
what it took, as one line of JSON.  `bench.load.spark` starts it, so that every system has a fresh JVM."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import usage
from bench.results import percentile
from tidelog import Producer

Samples = dict[str, list[float]]
PACE_S = 0.02
WARM_BATCHES = 3
LATENCY_SECONDS_MAX = 120


class Job:
    def __init__(self, given: argparse.Namespace, spark: Any, folder: Path) -> None:
        self.given = given
        self.spark = spark
        self.folder = folder
        self.ours = given.via == "tidelog"

    def reader(self, reader: Any, topic: str) -> Any:
        if self.ours:
            return reader.format("tidelog").option("bootstrap", self.given.bootstrap).option("topics", topic)
        return (
            reader.format("kafka")
            .option("kafka.bootstrap.servers", self.given.bootstrap)
            .option("subscribe", topic)
        )

    def writer(self, writer: Any, topic: str) -> Any:
        if self.ours:
            made = writer.format("tidelog").option("bootstrap", self.given.bootstrap)
            return made.option("topic", topic).option("guarantee", "exactly_once")
        return (
            writer.format("kafka")
            .option("kafka.bootstrap.servers", self.given.bootstrap)
            .option("topic", topic)
        )

    # What is measured

    def read(self) -> Samples:
        frame = self.reader(self.spark.read, "bench-read").load()
        return self.rounds(
            "spark-read", lambda: frame.write.format("noop").mode("overwrite").save(), parts=True
        )

    def stream(self) -> Samples:
        rates = []
        for number in range(self.given.rounds + 1):
            reader = self.reader(self.spark.readStream, "bench-read")
            for name in (
                ("starting", "maxRecordsPerTrigger")
                if self.ours
                else ("startingOffsets", "maxOffsetsPerTrigger")
            ):
                value = "earliest" if name.startswith("starting") else self.given.records // 4
                reader = reader.option(name, value)
            query = (
                reader.load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(self.folder / f"stream-{number}"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            done = [one for one in query.recentProgress if one["numInputRows"]]
            rows = sum(one["numInputRows"] for one in done)
            assert rows == self.given.records, f"{rows} rows were read of {self.given.records}"
            rates.append(rows / sum(one["durationMs"]["triggerExecution"] for one in done) * 1000)
        return {"spark-stream": rates[1:]}

    def write(self) -> Samples:
        rows = self.spark.range(0, self.given.records, 1, 2).selectExpr(
            "cast(id as string) key", "cast(repeat('x', 100) as binary) value"
        )
        rows = rows.cache()
        rows.count()
        return self.rounds(
            "spark-write", lambda: self.writer(rows.write, "bench-write").mode("append").save(), parts=True
        )

    def latency(self) -> Samples:
        """A record every 20 ms, from source to sink, as fast as batches go."""
        source = self.reader(self.spark.readStream, "bench-paced").load().select("key", "value")
        ends = threading.Event()
        pace = threading.Thread(target=self._pace, args=(ends,))
        query = (
            self.writer(source.writeStream, "bench-paced-copy")
            .option("checkpointLocation", str(self.folder / "latency"))
            .start()
        )
        pace.start()
        try:
            wanted = self.given.latency_seconds * 2
            deadline = time.monotonic() + self.given.latency_seconds + LATENCY_SECONDS_MAX
            times: list[float] = []
            while len(times) < wanted and time.monotonic() < deadline:
                time.sleep(0.2)
                if not query.isActive:
                    raise RuntimeError(f"the stream has ended: {query.exception()}")
                done = [one for one in query.recentProgress if one["numInputRows"]]
                times = [one["durationMs"]["triggerExecution"] for one in done[WARM_BATCHES:]]
        finally:
            ends.set()
            pace.join()
            query.stop()
        assert times, f"there was no batch within {LATENCY_SECONDS_MAX} s"
        return {"spark-batch-p50": [percentile(times, 50)], "spark-batch-p99": [percentile(times, 99)]}

    def _pace(self, ends: threading.Event) -> None:
        with Producer(bootstrap_servers=self.given.bootstrap) as producer:
            while not ends.wait(PACE_S):
                producer.send("bench-paced", b"x" * 100)

    # How

    def rounds(self, key: str, work: Callable[[], None], parts: bool) -> Samples:
        """Records a second, and CPU of a record by part; the first round warms up."""
        out: Samples = {key: [], f"{key}-broker": [], f"{key}-python": [], f"{key}-jvm": []}
        for number in range(self.given.rounds + 1):
            before, begun = self._cpu(), time.monotonic()
            work()
            seconds, after = time.monotonic() - begun, self._cpu()
            if number:
                out[key].append(self.given.records / seconds)
                for name in before:
                    out[f"{key}-{name}"].append((after[name] - before[name]) / self.given.records * 1e6)
        return out if parts else {key: out[key]}

    def _cpu(self) -> dict[str, float]:
        """Seconds of the broker, of Spark's Python workers, and of its JVM."""
        python, seen = 0.0, set[int]()
        for process in usage.tree(os.getpid()):
            # Daemons and their workers, and the process of a stream's source.
            if process not in seen and _is(process, b"-m\0pyspark."):
                python += usage.cpu_seconds(process)
                seen.update(usage.tree(process))
        whole = usage.cpu_seconds(os.getpid())
        return {"broker": usage.cpu_seconds(self.given.broker_pid), "python": python, "jvm": whole - python}


def _is(process: int, text: bytes) -> bool:
    try:
        return text in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--via", choices=("tidelog", "kafka"), required=True)
    given.add_argument("--bootstrap", required=True)
    given.add_argument("--broker-pid", type=int, required=True)
    given.add_argument("--records", type=int, required=True)
    given.add_argument("--rounds", type=int, required=True)
    given.add_argument("--latency-seconds", type=int, required=True)
    given.add_argument("--jars", default="")
    options = given.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # What goes between Spark and Python in small pieces waits less without TCP.
        .config("spark.python.unix.domain.socket.enabled", "true")
    )
    if options.jars:
        builder = builder.config("spark.jars", options.jars)
    samples: Samples = {}
    with tempfile.TemporaryDirectory() as folder:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        job = Job(options, spark, Path(folder))
        for work in (job.read, job.stream, job.write, job.latency):
            samples |= work()
        spark.stop()
    print(json.dumps(samples), flush=True)


if __name__ == "__main__":
    main()
