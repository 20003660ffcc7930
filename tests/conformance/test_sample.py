"""A sample of a topic as one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tidelog
from tidelog import Producer, TopicPartition
from tidelog.client.blocking.sample import shares_of
from tidelog.extras import MissingPackage


def fill(bootstrap: str, topic: str, values: list[Any], partition: int = 0, **options: Any) -> None:
    with Producer(bootstrap_servers=bootstrap, **options) as producer:
        for at, value in enumerate(values):
            producer.send(topic, value, key=b"k%d" % at, partition=partition)
        producer.flush()


def test_fields_of_json_are_columns(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    rows = [{"id": 1, "name": "Ann", "tags": ["a"]}, {"id": 2, "name": None}]
    fill(bootstrap, name, [*(json.dumps(row).encode() for row in rows), None])
    table = tidelog.sample(name, bootstrap_servers=bootstrap)
    columns = ["id", "name", "tags", "_key", "_topic", "_partition", "_offset", "_timestamp"]
    assert table.column_names == columns
    assert table.column("id").to_pylist() == [1, 2, None] and table.column("tags").to_pylist()[0] == ["a"]
    assert table.column("_key").to_pylist() == ["k0", "k1", "k2"] and set(table["_topic"].to_pylist()) == {
        name
    }
    frame = tidelog.sample(name, form="pandas", bootstrap_servers=bootstrap)
    assert list(frame.columns) == columns and list(frame["_offset"]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([b"a", "é".encode()], ["a", "é"]),
        ([b'{"id": 1}', b"7"], ['{"id": 1}', "7"]),
        ([b'{"id": 1}', b'{"id": "x"}'], ['{"id": 1}', '{"id": "x"}']),
        ([b'{"_key": 1}'], ['{"_key": 1}']),
        ([b"\xff", b"a"], [b"\xff", b"a"]),
        ([], []),
    ],
)
def test_other_values_stay_one_column(
    bootstrap: str, topic: Callable[..., str], values: list[bytes], shown: list[object]
) -> None:
    name = topic()
    fill(bootstrap, name, values)
    table = tidelog.sample(name, bootstrap_servers=bootstrap)
    assert table.column_names == ["key", "value", "topic", "partition", "offset", "timestamp"]
    assert table.column("value").to_pylist() == shown


def test_the_newest_committed_records_of_each_partition(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    fill(bootstrap, name, [b"%d" % at for at in range(50)])
    fill(bootstrap, name, [b"last"], partition=1)
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(name, b"aborted", partition=1)
        producer.flush()
        producer.abort_transaction()
    table = tidelog.sample(name, 4, bootstrap_servers=bootstrap)
    assert sorted(table.column("value").to_pylist()) == ["48", "49"]
    table = tidelog.sample(name, 6, bootstrap_servers=bootstrap)
    assert sorted(table.column("value").to_pylist()) == ["47", "48", "49", "last"]


def test_shares_of_small_partitions_go_to_large_ones() -> None:
    sizes = {TopicPartition("t", at): size for at, size in enumerate((100, 0, 3, 100))}
    assert list(shares_of(sizes, 20).values()) == [0, 3, 9, 8] and sum(shares_of(sizes, 1000).values()) == 203


def test_mistakes_are_named(bootstrap: str, topic: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="form is arrow, pandas or polars, not 'csv'"):
        tidelog.sample("t", form="csv")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="records is a number from 1"):
        tidelog.sample("t", 0)
    with pytest.raises(MissingPackage, match="pip install polars"):
        tidelog.sample("t", form="polars")
    with pytest.raises(tidelog.TidelogError, match="nowhere"):
        tidelog.sample("nowhere", bootstrap_servers=bootstrap)
