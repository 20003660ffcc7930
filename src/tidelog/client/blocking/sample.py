"""The newest records of a topic as one table, for notebooks and for a first look."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from tidelog.client.blocking.consumer import Consumer, ConsumerSettings
from tidelog.errors import RequestTimedOut
from tidelog.extras import MissingPackage
from tidelog.record.columns import require_pyarrow
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

Form = Literal["arrow", "pandas", "polars"]

RECORDS_MAX = 1_000_000
POLL_MS = 500
OF_RECORD = ("key", "topic", "partition", "offset", "timestamp")


def sample(
    topic: str,
    records: int = 1000,
    *,
    form: Form = "arrow",
    timeout_ms: int = 30_000,
    **options: Unpack[ConsumerSettings],
) -> Any:
    """The newest committed records of a topic, at most `records`: equal shares of the partitions where they have so many.

    tidelog.sample("orders")                                                # a pyarrow.Table
    tidelog.sample("orders", 100, form="pandas", bootstrap_servers="...")   # a DataFrame; "polars" likewise

    Values that are all JSON objects become columns, beside `_key`, `_topic`, `_partition`, `_offset` and `_timestamp`;
    otherwise the columns are key, value, topic, partition, offset and timestamp.  Keys and values are text if all of them
    are UTF-8.  `options`: those of a Consumer."""
    if form not in ("arrow", "pandas", "polars"):
        raise ValueError(f"form is arrow, pandas or polars, not {form!r}")
    if not 1 <= records <= RECORDS_MAX:
        raise ValueError(f"records is a number from 1 to {RECORDS_MAX}, not {records}")
    require_pyarrow()
    if form != "arrow" and importlib.util.find_spec(form) is None:
        raise MissingPackage(
            f"A sample as {form} needs {form}, which is not installed here: pip install {form}"
        )
    options = {"isolation_level": "read_committed", **options, "enable_auto_commit": False}
    with Consumer(**options) as consumer:
        table = _columns(_read(consumer, topic, records, time.monotonic() + timeout_ms / 1000))
    if form == "pandas":
        return table.to_pandas()
    if form == "polars":
        return importlib.import_module("polars").from_arrow(table)
    return table


def _read(consumer: Consumer, topic: str, records: int, deadline_s: float) -> pyarrow.Table:
    import pyarrow as pa

    partitions = [TopicPartition(topic, index) for index in consumer.partitions_for(topic)]
    first, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    shares = shares_of({partition: ends[partition] - first[partition] for partition in partitions}, records)
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, ends[partition] - shares[partition])
    batches = [consumer.poll_arrow(0)]
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        if time.monotonic() > deadline_s:
            raise RequestTimedOut(f"The sample of {topic!r} was not read in time: raise timeout_ms")
        batches.append(consumer.poll_arrow(POLL_MS))
    table = pa.Table.from_batches(batches)
    # Records that arrived meanwhile are not part of the sample.
    places = zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True)
    return table.filter(
        pa.array([offset < ends[TopicPartition(topic, index)] for index, offset in places], pa.bool_())
    )


def shares_of(sizes: Mapping[TopicPartition, int], records: int) -> dict[TopicPartition, int]:
    """How many records of each partition: equal shares; what small partitions leave goes to larger ones."""
    shares: dict[TopicPartition, int] = {}
    for at, partition in enumerate(sorted(sizes, key=lambda partition: sizes[partition])):
        left = records - sum(shares.values())
        shares[partition] = min(sizes[partition], -(-left // (len(sizes) - at)))
    return shares


def _columns(table: pyarrow.Table) -> pyarrow.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _json_objects(table.column("value"))
    record = {name: table.column(name) for name in OF_RECORD}
    record["key"] = _text(record["key"])
    record["topic"] = record["topic"].cast(pa.string())
    if values is None:
        named = {"key": record.pop("key"), "value": _text(table.column("value")), **record}
        return pa.table(named)
    own = {field.name: pc.struct_field(values, field.name) for field in values.type}
    return pa.table({**own, **{f"_{name}": column for name, column in record.items()}})


def _json_objects(column: Any) -> Any:
    """The values as a struct array if all of them are JSON objects of like types; None otherwise."""
    import pyarrow as pa

    reserved = {f"_{name}" for name in OF_RECORD}
    try:
        objects = [None if value is None else json.loads(value) for value in column.to_pylist()]
        if not any(objects) or not all(each is None or isinstance(each, dict) for each in objects):
            return None
        array = pa.array(objects)
    except (ValueError, RecursionError, pa.ArrowException):
        return None
    return None if reserved & {field.name for field in array.type} else array


def _text(column: Any) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return column
