"""`write` and `writeStream.format("tidelog")` on a real broker, and values encoded and decoded on the way."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.topics import create_topic
from tests.pipeline.frames import failure, fill, finish, reading, streaming, values, writing
from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.pipeline.options.sink import sink_options
from tidelog.pipeline.sink.producers import producer_of

Topic = Callable[..., str]


def write(frame: Any, bootstrap: str, **options: Any) -> None:
    writer = frame.write.format("tidelog").option("bootstrap", bootstrap)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.mode("append").save()


def test_every_column_reaches_the_record(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders, others = topic(partitions=3, config={"retention.ms": "-1"}), topic()
    frame = spark.sql(
        f"""
        select * from values
          ('{orders}', 'a', cast('1' as binary), 2, timestamp '2026-10-01 00:00:00.123',
           array(struct('h', cast('x' as binary)))),
          ('{others}', null, null, null, null, null)
        as t(topic, key, value, partition, timestamp, headers)
        """
    )
    write(frame, bootstrap)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(orders, 2), TopicPartition(others, 0)])
        consumed: dict[str, Any] = {}
        while len(consumed) < 2:
            consumed |= {record.topic: record for record in consumer.poll(1000)}
    record, other = consumed[orders], consumed[others]
    assert (record.key, record.value, record.timestamp) == (b"a", b"1", 1_790_812_800_123)
    assert list(record.headers) == [("h", b"x")]
    assert (other.key, other.value) == (None, None) and not list(other.headers) and other.timestamp > 0


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_batch_is_written_and_read_back(spark: Any, bootstrap: str, topic: Topic, guarantee: str) -> None:
    orders = topic(partitions=2)
    frame = spark.range(3000).selectExpr("cast(id as string) key", "concat('v', id) value")
    write(frame, bootstrap, topic=orders, guarantee=guarantee, compression="zstd")
    back = reading(spark, bootstrap, topics=orders).selectExpr(
        "cast(key as string) key", "cast(value as string) value"
    )
    assert back.exceptAll(frame).count() == 0 and frame.exceptAll(back).count() == 0


def test_a_batch_in_transactions_is_seen_as_a_whole_or_not_at_all(
    spark: Any, bootstrap: str, topic: Topic
) -> None:
    orders = topic()
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "if(id = 99, raise_error('on purpose'), cast(id as string)) value"
    )
    message = failure(spark, lambda: write(frame, bootstrap, topic=orders, guarantee="exactly_once"))
    assert "on purpose" in message
    assert values(reading(spark, bootstrap, topics=orders, isolation="read_committed")) == []
    with Admin(bootstrap_servers=bootstrap) as admin:
        # No transaction is left open for which readers would have to wait.
        def open_ones() -> list[str]:
            ids = [
                transaction.transactional_id for transaction in admin.list_transactions(states=["Ongoing"])
            ]
            return [transactional_id for transactional_id in ids if f"/{orders}/" in transactional_id]

        wait_until(lambda: not open_ones(), 60, "the end of transactions")


def test_update_mode_through_foreach_batch(spark: Any, bootstrap: str, topic: Topic, tmp_path: Path) -> None:
    words, counts, log = topic(), topic(), topic()
    for batch in (["a", "b", "a"], ["b", "c"]):
        fill(bootstrap, words, batch)
        counted = (
            streaming(spark, bootstrap, topics=words)
            .selectExpr("cast(value as string) word")
            .groupBy("word")
            .count()
        )

        def both(rows: Any, number: int) -> None:
            pairs = rows.selectExpr("word key", "cast(count as string) value")
            write(pairs, bootstrap, topic=counts, guarantee="exactly_once")
            write(pairs, bootstrap, topic=log, guarantee="exactly_once")

        writer = counted.writeStream.outputMode("update").foreachBatch(both)
        finish(writer.option("checkpointLocation", str(tmp_path / "c")))
    for path in (counts, log):
        rows = reading(spark, bootstrap, topics=path).selectExpr(
            "cast(key as string) k", "cast(value as string) v"
        )
        assert sorted((row.k, row.v) for row in rows.collect()) == [
            ("a", "2"),
            ("b", "1"),
            ("b", "2"),
            ("c", "1"),
        ]


def test_jobs_of_a_group_of_their_own_are_written_once(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    """A user's group is the same in every life of the query; transactional ids must not be."""
    source, sink = topic(), topic()

    def grouped(rows: Any, number: int) -> None:
        spark.sparkContext.setJobGroup("mine", "the same every time")
        write(rows.select("value"), bootstrap, topic=sink, guarantee="exactly_once")

    for life in range(2):
        fill(bootstrap, source, [f"{life}"])
        writer = streaming(spark, bootstrap, topics=source).writeStream.foreachBatch(grouped)
        finish(writer.option("checkpointLocation", str(tmp_path / "c")))
    assert values(reading(spark, bootstrap, topics=sink)) == ["0", "1"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        ours = [
            transaction.transactional_id
            for transaction in admin.list_transactions()
            if f"/{sink}/" in transaction.transactional_id
        ]
    lives = {
        transactional_id.split("/")[3] for transactional_id in ours if "/decisions/" not in transactional_id
    }
    assert len(lives) == 2


def test_two_writes_to_one_topic_in_a_batch_need_names(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    source, sink = topic(), topic()
    fill(bootstrap, source, ["a"])

    def run(*names: str) -> None:
        def twice(rows: Any, number: int) -> None:
            for name in names:
                write(rows.select("value"), bootstrap, topic=sink, guarantee="exactly_once", sinkId=name)

        writer = streaming(spark, bootstrap, topics=source).writeStream.foreachBatch(twice)
        finish(writer.option("checkpointLocation", str(tmp_path / "-".join(names))))

    assert "sinkId" in failure(spark, lambda: run("same", "same"))
    run("one", "two")
    assert values(reading(spark, bootstrap, topics=sink)) == ["a"] * 3


AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "by", "type": {"type": "map", "values": "int"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string price = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4; map<string, int32> by = 5;
  optional string note = 6;
}
"""
DDL = "id bigint, price decimal(9,2), at timestamp, tags array<string>, by map<string, int>, note string"
MOMENT = datetime.datetime(2026, 1, 31, 12, 0, 0, 250_000)


def orders_frame(spark: Any, price: str = "decimal(9,2)") -> Any:
    return spark.sql(
        f"""
        select id, cast('9.50' as {price}) price, timestamp '2026-01-31 12:00:00.25' at,
               array('a', 'b') tags, map('x', 1) by, if(id = 1, null, 'n') note, cast(id as string) _key
        from range(0, 3, 1, 1)
        """
    )


@pytest.mark.parametrize("through", ["options", "registry"])
@pytest.mark.parametrize(("form", "schema"), [("json", DDL), ("avro", AVRO), ("protobuf", PROTO)])
def test_rows_are_encoded_and_decoded(
    spark: Any, broker: BrokerProcess, bootstrap: str, topic: Topic, form: str, schema: str, through: str
) -> None:
    orders = topic()
    frame = orders_frame(spark, "string" if form == "protobuf" else "decimal(9,2)")
    common: dict[str, Any] = {"format": form}
    given: dict[str, Any] = {"schema": schema}
    if through == "registry":
        common["registry"] = f"http://{broker.http}"  # type: ignore[attr-defined]
        if form == "json":
            given = {"schema": JSON_SCHEMA}
    write(frame, bootstrap, topic=orders, **common, **given)
    # With a registry the reader needs no schema of its own.
    wanted = {} if through == "registry" else given
    rows = reading(spark, bootstrap, topics=orders, **common, **wanted).orderBy("id").collect()
    assert [row.id for row in rows] == [0, 1, 2]
    first = rows[0].asDict()
    assert first["price"] in (Decimal("9.50"), "9.50", 9.5)
    assert first["at"] == MOMENT and first["tags"] == ["a", "b"] and first["by"] == {"x": 1}
    assert [row.note for row in rows] == ["n", None, "n"]
    assert bytes(first["_key"]) == b"0" and first["_topic"] == orders and first["_offset"] == 0


JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": "number"},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "by": {"type": "object", "additionalProperties": {"type": "integer"}},
            "note": {"type": "string"},
        },
    }
)


def test_poison_rows_fail_are_shown_or_are_left_out(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, ['{"id": 1}', "poison", '{"id": 2}', '{"id": "x"}'])
    options = {"topics": orders, "format": "json", "schema": "id bigint"}
    message = failure(spark, lambda: reading(spark, bootstrap, **options).count())
    assert f"offset 1 of {orders}-0 does not fit the json schema" in message and "permissive" in message
    left = reading(spark, bootstrap, **options, mode="dropmalformed")
    assert [row.id for row in left.collect()] == [1, 2]
    shown = reading(spark, bootstrap, **options, mode="permissive").collect()
    assert [row.id for row in shown] == [1, None, 2, None]
    assert [row._error is not None for row in shown] == [False, True, False, True]
    assert bytes(shown[1]._value) == b"poison"


def test_columns_that_the_user_names(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, ['{"id": 1, "n": {"x": 5}, "more": true}'])

    def reader() -> Any:
        return spark.read.format("tidelog").option("bootstrap", bootstrap).option("topics", orders)

    frame = reader().option("format", "json").schema("_offset bigint, n struct<x: int>").load()
    assert frame.where("_offset = 0").collect()[0].n.x == 5
    message = failure(spark, lambda: reader().schema("value string").load().count())
    assert "no column 'value' of type string" in message


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("1 as value", {"topic": "t"}, "column 'value' has type int, but it must be binary or string"),
        ("'x' as wert", {"topic": "t"}, "a record has no column 'wert'"),
        ("'x' as key", {"topic": "t"}, "there is no column 'value'"),
        ("'x' as value", {}, "which topic?"),
        ("'x' as value", {"topic": "t", "guarantee": "twice"}, "use exactly_once, at_least_once"),
        ("'x' as value", {"topic": "t", "sinkId": "s"}, "needs option 'guarantee'"),
        ("'x' as value", {"topic": "t", "schema": "id int"}, "needs option 'format'"),
        ("'x' as id", {"topic": "t", "format": "avro", "schema": AVRO}, "does not fit the avro schema"),
        (
            "1 as idd",
            {"topic": "t", "format": "avro", "schema": AVRO},
            "column 'idd' is not in the avro schema",
        ),
        ("'x' as value, 7 as partition", {"topic": "t"}, "there is no such partition, the topic has 0 to 0"),
    ],
)
def test_rows_that_make_no_records_are_refused(
    spark: Any, bootstrap: str, topic: Topic, rows: str, options: dict[str, str], message: str
) -> None:
    real = {**options, "topic": topic()} if "topic" in options else options
    assert message in failure(spark, lambda: write(spark.sql(f"select {rows}"), bootstrap, **real))


def test_a_topic_is_not_overwritten(spark: Any, bootstrap: str, topic: Topic) -> None:
    writer = spark.sql("select 'x' value").write.format("tidelog").option("bootstrap", bootstrap)
    message = failure(spark, lambda: writer.option("topic", topic()).mode("overwrite").save())
    assert "mode('append')" in message


def test_a_stream_chains_sinks_and_sources(spark: Any, bootstrap: str, topic: Topic, tmp_path: Path) -> None:
    """The next query reads what the first one has written only once the transactions are committed."""
    first, second, third = topic(partitions=2), topic(partitions=2), topic()
    for round_ in range(2):
        fill(bootstrap, first, [f"{round_}-{number}" for number in range(50)])
        for number, (source, sink) in enumerate(((first, second), (second, third))):
            frame = streaming(spark, bootstrap, topics=source, maxRecordsPerTrigger=40).select("key", "value")
            finish(writing(frame, bootstrap, tmp_path / str(number), topic=sink))
    written = sorted(map(str, values(reading(spark, bootstrap, topics=third))))
    assert written == sorted(f"{round_}-{number}" for round_ in range(2) for number in range(50))


def test_a_task_waits_for_a_broker_that_is_away(own_broker: Callable[..., BrokerProcess]) -> None:
    running = own_broker()
    create_topic(running.bootstrap, "orders", 1, None)
    running.stop()
    back = threading.Timer(0.5, running.start)
    back.start()
    options = sink_options({"bootstrap": running.bootstrap, "topic": "orders"}, streaming=False)
    with producer_of(options, None) as producer:
        assert producer.send("orders", b"a").get(60).offset == 0
    back.join()


def test_security_options_reach_the_client(spark: Any, bootstrap: str) -> None:
    """TLS to a listener that does not speak it fails as a handshake, not as something else."""
    message = failure(
        spark,
        lambda: reading(spark, bootstrap, topics="t", security__tls="true", timeoutMs=500).count(),
    )
    assert "tls" in message.lower() or "ssl" in message.lower()


def test_producers_of_other_systems_are_read(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        for number in range(100):
            producer.send(orders, b"%d" % number)
    assert reading(spark, bootstrap, topics=orders).count() == 100
