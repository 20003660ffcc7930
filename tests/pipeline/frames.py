"""Helpers for tests of sources and sinks: fill topics, make DataFrames of topics, run streams to their end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidelog import Producer

WAIT_S = 180


def fill(bootstrap: str, topic: str, values: Iterable[bytes | str], partition: int | None = None) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            data = value.encode() if isinstance(value, str) else value
            producer.send(topic, data, key=b"%d" % number, partition=partition)
        producer.flush(60)


def reading(spark: Any, bootstrap: str, **options: Any) -> Any:
    """A batch DataFrame of a topic; the options go to the source."""
    return _with(spark.read, bootstrap, options).load()


def streaming(spark: Any, bootstrap: str, **options: Any) -> Any:
    return _with(spark.readStream, bootstrap, {"starting": "earliest", **options}).load()


def _with(reader: Any, bootstrap: str, options: dict[str, Any]) -> Any:
    reader = reader.format("tidelog").option("bootstrap", bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader


def writing(frame: Any, bootstrap: str, checkpoint: Path, **options: Any) -> Any:
    """A stream's writer, to be given a trigger and started."""
    writer = frame.writeStream.format("tidelog").option("bootstrap", bootstrap)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    return writer.option("checkpointLocation", str(checkpoint))


def finish(writer: Any) -> Any:
    """Runs the stream until it has processed the records that exist now."""
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S), "the stream did not end"
    return query


def values(frame: Any) -> list[str | None]:
    return [
        None if row.value is None else bytes(row.value).decode() for row in frame.select("value").collect()
    ]


def failure(spark: Any, work: Any) -> str:
    """The message of a query that must fail."""
    try:
        work()
    except Exception as problem:
        return str(problem)
    raise AssertionError("it did not fail")
