"""Avro and Protobuf out of pipelines, SQL and the sink, read by other people's deserializers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.conformance.process import BrokerProcess
from tests.pipeline.frames import reading
from tests.pipeline.records import records, send
from tests.pipeline.test_sink import write
from tidelog.pipeline import Pipeline, PipelineError
from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.engine import Engine, Notice
from tidelog.pipeline.sql.statements import SqlError
from tidelog.pipeline.values.protobuf import file_set, message_of

Topic = Callable[..., str]
PROTO = """
syntax = "proto3";
message Other { int32 x = 1; }
message Order { int32 id = 1; string customer = 2; repeated string tags = 3; }
"""
pytestmark = pytest.mark.timeout(1500)  # Spark on a busy machine takes its time


@pytest.fixture
def registry(broker: BrokerProcess) -> str:
    return f"http://{broker.http}"  # type: ignore[attr-defined]


def avro(registry: str, bootstrap: str, topic: str) -> list[tuple[bytes | None, Any]]:
    """Keys, and values as confluent-kafka reads them."""
    read = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    where = SerializationContext(topic, MessageField.VALUE)
    return [(record.key, record.value and read(record.value, where)) for record in records(bootstrap, topic)]


def protobuf(registry: str, bootstrap: str, topic: str, text: str, message: str | None = None) -> list[Any]:
    kind = message_of(file_set(text), message)
    read = ProtobufDeserializer(
        kind, {"use.deprecated.format": False}, SchemaRegistryClient({"url": registry})
    )
    where = SerializationContext(topic, MessageField.VALUE)
    return [read(record.value, where) for record in records(bootstrap, topic)]


def test_streams_are_written_as_avro_and_protobuf(
    spark: Any, bootstrap: str, registry: str, topic: Topic, tmp_path: Path
) -> None:
    source, plain, named = topic(), topic(), topic()
    send(bootstrap, source, [{"id": 1, "customer": "ann", "tags": ["a", "b"]}, {"id": 2, "customer": "bob"}])
    pipeline = Pipeline("formats", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    orders = pipeline.stream(source, schema="id int, customer string, tags array<string>").key_by("customer")
    # No schema is given: the first is made of the columns.
    orders.to(plain, format="avro", registry=registry)
    orders.to(named, format="protobuf", schema=PROTO, message="Order", registry=registry)
    pipeline.run(until_done=True)
    assert avro(registry, bootstrap, plain) == [
        (b"ann", {"id": 1, "customer": "ann", "tags": ["a", "b"]}),
        (b"bob", {"id": 2, "customer": "bob", "tags": None}),
    ]
    orders_read = protobuf(registry, bootstrap, named, PROTO, "Order")
    assert [(order.id, order.customer, list(order.tags)) for order in orders_read] == [
        (1, "ann", ["a", "b"]),
        (2, "bob", []),
    ]
    # What is read back needs nothing but the registry.
    back = reading(spark, bootstrap, topics=named, format="protobuf", registry=registry, message="Order")
    assert [(row.id, row.customer) for row in back.orderBy("id").collect()] == [(1, "ann"), (2, "bob")]


def test_sql_writes_avro_and_protobuf(
    spark: Any, bootstrap: str, registry: str, name: Callable[[], str], tmp_path: Path
) -> None:
    pipeline = Pipeline("sql-formats", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    engine = Engine(pipeline, catalog=Catalog(), until_done=True)
    prices, copy = name(), name()

    def sql(text: str) -> Any:
        result = engine.script(text)[-1]
        return result.text if isinstance(result, Notice) else list(result.rows)

    with_ = f"registry = '{registry}'"
    sql(
        f"""
        CREATE STREAM prices (sku STRING, price DECIMAL(9,2)) WITH
          (topic = '{prices}', format = 'avro', key = 'sku', {with_});
        INSERT INTO prices VALUES ('pear', 1.25), ('fig', 0.5);
        """
    )
    # Two tasks, which write when they come to it.
    assert sorted(avro(registry, bootstrap, prices)) == [
        (b"fig", {"sku": "fig", "price": Decimal("0.50")}),
        (b"pear", {"sku": "pear", "price": Decimal("1.25")}),
    ]
    sql(
        f"CREATE STREAM dear WITH (topic = '{copy}', format = 'protobuf', {with_}) AS "
        "SELECT sku, CAST(price AS DOUBLE) AS price FROM prices WHERE price > 1"
    )
    engine.wait()
    text = SchemaRegistryClient({"url": registry}).get_latest_version(f"{copy}-value").schema.schema_str
    assert text is not None
    (pear,) = protobuf(registry, bootstrap, copy, text)
    assert (pear.sku, pear.price) == ("pear", 1.25)
    # A declaration without columns has those of the schema.
    sql(f"CREATE STREAM again WITH (topic = '{prices}', format = 'avro', {with_})")
    assert sql("DESCRIBE again")[:2] == [("sku", "string", ""), ("price", "decimal(9,2)", "")]
    assert sql("SELECT sku, price FROM again ORDER BY sku") == [
        ("fig", Decimal("0.50")),
        ("pear", Decimal("1.25")),
    ]
    for text, message in (
        ("CREATE STREAM x (a INT) WITH (format = 'avro')", "needs WITH \\(registry"),
        (
            f"CREATE STREAM x (a INT) WITH (topic = '{prices}', format = 'avro', {with_})",
            "column 'a' is not in the avro schema",
        ),
        (f"CREATE STREAM x WITH (format = 'avro', subject = 'none', {with_})", "Subject 'none' not found"),
    ):
        with pytest.raises(SqlError, match=message):
            sql(text)


def test_sql_writes_and_reads_json_of_a_registry(
    spark: Any, bootstrap: str, registry: str, name: Callable[[], str], tmp_path: Path
) -> None:
    pipeline = Pipeline("sql-json", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    engine = Engine(pipeline, catalog=Catalog(), until_done=True)
    prices = name()
    engine.script(
        f"""
        CREATE STREAM prices (sku STRING, count INT) WITH
          (topic = '{prices}', format = 'json', key = 'sku', registry = '{registry}');
        INSERT INTO prices VALUES ('pear', 3), ('fig', 5);
        CREATE STREAM again WITH (topic = '{prices}', format = 'json', registry = '{registry}');
        """
    )
    result = engine.script("SELECT sku, count FROM again ORDER BY sku")[-1]
    assert not isinstance(result, Notice) and list(result.rows) == [("fig", 5), ("pear", 3)]
    client = SchemaRegistryClient({"url": registry})
    assert client.get_latest_version(f"{prices}-value").schema.schema_type == "JSON"
    read, where = (
        JSONDeserializer(None, schema_registry_client=client),
        SerializationContext(prices, MessageField.VALUE),
    )
    values = [read(record.value, where) for record in records(bootstrap, prices)]
    assert sorted(values, key=str) == [{"sku": "fig", "count": 5}, {"sku": "pear", "count": 3}]


def test_rows_that_are_deleted_have_no_value(spark: Any, bootstrap: str, registry: str, topic: Topic) -> None:
    customers = topic()
    rows = (
        "('ann', 'Delft', false), ('bob', cast(null as string), true), ('eve', 'Gent', cast(null as boolean))"
    )
    frame = spark.sql(
        f"select id as _key, id, city, gone as _deleted from values {rows} as t(id, city, gone)"
    )
    write(frame, bootstrap, topic=customers, format="avro", registry=registry)
    assert dict(avro(registry, bootstrap, customers)) == {
        b"ann": {"id": "ann", "city": "Delft"},
        b"bob": None,
        b"eve": {"id": "eve", "city": "Gent"},
    }


def test_what_does_not_go_with_a_format_is_refused(spark: Any, tmp_path: Path) -> None:
    pipeline = Pipeline("refused", bootstrap="127.0.0.1:1", checkpoint=str(tmp_path), spark=spark)
    ticks = pipeline.from_df(spark.readStream.format("rate").load())
    for options, message in (
        ({"format": "xml"}, "the format is one of json, bytes, text, avro, protobuf, not 'xml'"),
        ({"format": "avro", "value": "value"}, "avro encodes all columns"),
        (
            {"format": "text", "value": "value", "registry": "http://x"},
            "registry is for the formats json, avro",
        ),
    ):
        with pytest.raises(PipelineError, match=message):
            ticks.to("topic", **options)
