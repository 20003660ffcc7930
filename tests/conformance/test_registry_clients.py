"""confluent-kafka's SchemaRegistryClient and serializers, and our own, on the registry that every broker has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import tidelog
import tidelog.schema
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.registry import record
from tests.conformance.registry_messages import Customer, Order
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.schema import Avro, JsonSchema, Protobuf, Registry

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")

Names = Callable[[], str]


@pytest.fixture
def url(broker: TidelogBroker) -> str:
    return f"http://{broker.http}"


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as made:
        yield made


def avro(*fields: Any, name: str = "shop.Order") -> Schema:
    return Schema(json.dumps(record(name, *fields)), "AVRO")


def code(act: Callable[[], Any]) -> int:
    with pytest.raises(SchemaRegistryError) as refused:
        act()
    return int(refused.value.error_code)


def test_a_subject_from_its_first_version_to_the_last(client: SchemaRegistryClient, name: Names) -> None:
    subject, first, second = name(), avro(("id", "long")), avro(("id", "long"), ("note", "string", ""))
    one = client.register_schema(subject, first)
    two = client.register_schema(subject, second)
    assert two > one and client.register_schema(subject, first) == one
    assert client.get_versions(subject) == [1, 2] and subject in client.get_subjects()
    assert client.get_latest_version(subject).schema_id == two
    assert client.get_version(subject, 1).schema_id == one
    assert json.loads(client.get_schema(two).schema_str)["fields"][1]["default"] == ""
    assert client.lookup_schema(subject, second).version == 2
    assert subject in client.get_subjects_by_schema_id(one)
    assert (subject, 2) in [(v.subject, v.version) for v in client.get_schema_versions(two)]
    guid = client.get_latest_version(subject).guid
    client.clear_caches()
    assert guid is not None
    assert client.get_schema_by_guid(guid).schema_str == client.get_schema(two).schema_str
    assert client.delete_version(subject, 1) == 1 and client.get_versions(subject) == [2]
    assert client.get_versions(subject, deleted=True) == [1, 2]
    assert client.delete_version(subject, 1, permanent=True) == 1
    assert client.delete_subject(subject) == [2]
    assert subject not in client.get_subjects() and subject in client.get_subjects(deleted=True)
    assert code(lambda: client.get_version(subject, 2)) == 40401
    assert client.delete_subject(subject, permanent=True) == [2]
    assert subject not in client.get_subjects(deleted=True)


def test_what_breaks_readers_is_refused_and_named(client: SchemaRegistryClient, name: Names) -> None:
    subject, worse = name(), avro(("id", "long"), ("note", "string"))
    client.register_schema(subject, avro(("id", "long")))
    assert not client.test_compatibility(subject, worse)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, worse)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.value.error_message
    assert "'note' at path '/fields/1'" in refused.value.error_message
    client.set_compatibility(subject, "FORWARD")
    assert client.get_compatibility(subject) == "FORWARD" and client.get_compatibility() == "BACKWARD"
    assert client.test_compatibility(subject, worse) and client.register_schema(subject, worse)
    assert client.test_compatibility_all_versions(subject, avro(("id", "long"), ("note", "string")))


def test_settings_and_modes(client: SchemaRegistryClient, name: Names) -> None:
    subject = name()
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL_TRANSITIVE))
    assert client.get_config(subject).compatibility_level == "FULL_TRANSITIVE"
    client.delete_config(subject)
    assert code(lambda: client.get_config(subject)) == 40408
    assert code(lambda: client.get_mode(subject)) == 40409
    assert client.update_mode(subject, "READONLY") == "READONLY" == client.get_mode(subject)
    assert code(lambda: client.register_schema(subject, avro(("id", "long")))) == 42205
    assert client.delete_mode(subject) == "READONLY"
    assert client.register_schema(subject, avro(("id", "long"))) and client.get_global_mode() == "READWRITE"
    assert "." in client.get_contexts() and sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]


def test_the_newest_version_with_some_metadata(client: SchemaRegistryClient, name: Names) -> None:
    subject = name()
    for owner, field in (("sales", "a"), ("sales", "b"), ("finance", "c")):
        known = Metadata(tags=None, sensitive=None, properties=MetadataProperties({"owner": owner}))
        text = json.dumps(record("shop.Order", ("id", "long"), (field, "int", 0)))
        client.register_schema(subject, Schema(text, "AVRO", metadata=known))
    assert client.get_latest_with_metadata(subject, {"owner": "sales"}).version == 2
    assert client.get_latest_version(subject).version == 3
    assert code(lambda: client.get_latest_with_metadata(subject, {"owner": "nobody"})) == 40403


def test_schemas_that_refer_to_others(client: SchemaRegistryClient, name: Names) -> None:
    part, whole = name(), name()
    client.register_schema(part, avro(("city", "string"), name="shop.Address"))
    text = json.dumps(record("shop.Customer", ("home", "shop.Address")))
    assert code(lambda: client.register_schema(whole, Schema(text, "AVRO"))) == 42201
    found = client.register_schema(whole, Schema(text, "AVRO", [SchemaReference("shop.Address", part, 1)]))
    assert client.get_referenced_by(part, 1) == [found]
    assert code(lambda: client.delete_subject(part)) == 42206
    client.delete_subject(whole)
    assert client.delete_subject(part) == [1]


def through_kafka(bootstrap: str, topic: str, value: bytes | None) -> bytes:
    assert value is not None
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        return bytes(message.value())
    finally:
        consumer.close()


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_confluents_avro_serializer(
    client: SchemaRegistryClient, url: str, bootstrap: str, topic: Callable[[], str]
) -> None:
    where = topic()
    text = json.dumps(record("shop.Order", ("id", "long"), ("note", ["null", "string"], None)))
    write = AvroSerializer(client, text, conf={"normalize.schemas": True})
    value = through_kafka(bootstrap, where, write({"id": 7, "note": "é"}, context(where)))
    assert AvroDeserializer(client)(value, context(where)) == {"id": 7, "note": "é"}
    assert Avro(registry=Registry(url)).deserialize(where, value) == {"id": 7, "note": "é"}
    newest = AvroSerializer(client, conf={"auto.register.schemas": False, "use.latest.version": True})
    assert newest({"id": 8, "note": None}, context(where)) is not None


def test_confluents_json_serializer(
    client: SchemaRegistryClient, url: str, bootstrap: str, topic: Callable[[], str]
) -> None:
    where = topic()
    schema = {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }
    write = JSONSerializer(json.dumps(schema), client)
    value = through_kafka(bootstrap, where, write({"id": 7}, context(where)))
    assert JSONDeserializer(json.dumps(schema), schema_registry_client=client)(value, context(where)) == {
        "id": 7
    }
    assert JsonSchema(schema, registry=Registry(url)).deserialize(where, value) == {"id": 7}


def test_confluents_protobuf_serializer(
    client: SchemaRegistryClient, url: str, bootstrap: str, topic: Callable[[], str]
) -> None:
    where = topic()
    write = ProtobufSerializer(Order, client, {"use.deprecated.format": False})
    order = Order(id=7, customer=Customer(name="Ada"))
    value = through_kafka(bootstrap, where, write(order, context(where)))
    read = ProtobufDeserializer(Order, {"use.deprecated.format": False}, client)
    assert read(value, context(where)) == order
    assert Protobuf(Order, registry=Registry(url)).deserialize(where, value) == order
    told = client.get_latest_version(f"{where}-value").schema
    assert told.schema_type == "PROTOBUF" and "message Order {" in told.schema_str
    assert 'doc: "who bought"' in told.schema_str, "options of others are part of the text"
    assert [one.name for one in told.references] == ["tests/customer.proto"]
    packed = client.get_version(f"{where}-value", 1, fmt="serialized").schema.schema_str
    assert Order.DESCRIPTOR.file.package == "tests.shop" and "message" not in packed


def test_our_own_serializers(url: str, bootstrap: str, topic: Callable[[], str]) -> None:
    registry = Registry(url)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    order = Order(id=9, customer=Customer(name="Bo"))
    for serializer, value in (
        (Avro(record("shop.Order", ("id", "long")), registry=registry), {"id": 9}),
        (JsonSchema(schema, registry=registry), {"id": 9}),
        (Protobuf(Order, registry=registry), order),
    ):
        where = topic()
        with tidelog.Producer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
            producer.send(where, value)
        with tidelog.Consumer(
            where, bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=serializer
        ) as consumer:
            assert next(iter(consumer)).value == value


def test_our_own_serializers_with_references_and_normal_forms(url: str, name: Names) -> None:
    registry, part, topic = Registry(url), name(), name()
    registry.ask(
        "POST", f"/subjects/{part}/versions", {"schema": json.dumps(record("shop.City", ("zip", "string")))}
    )
    whole = Avro(
        record("shop.Home", ("city", "shop.City")), registry=registry, references=[("shop.City", part, 1)]
    )
    data = whole.serialize(topic, {"city": {"zip": "8000"}})
    assert whole.deserialize(topic, data) == {"city": {"zip": "8000"}}
    assert Avro(registry=Registry(url)).deserialize(topic, data) == {"city": {"zip": "8000"}}
    city = {"type": "object", "properties": {"zip": {"type": "string"}}}
    shapes, other = name(), name()
    registry.ask("POST", f"/subjects/{shapes}/versions", {"schema": json.dumps(city), "schemaType": "JSON"})
    home = JsonSchema(
        {"type": "object", "properties": {"city": {"$ref": "city.json"}}},
        registry=registry,
        references=[("city.json", shapes, 1)],
    )
    assert home.deserialize(other, home.serialize(other, {"city": {"zip": "1"}})) == {"city": {"zip": "1"}}
    with pytest.raises(tidelog.schema.SerializationError, match=r"\$\.city\.zip"):
        home.serialize(other, {"city": {"zip": 1}})
    ids = set()
    for text in ('{"type":"object","title":"x"}', '{"title":"x","type":"object"}'):
        subject = name()
        ids.add(JsonSchema(text, registry=registry, normalize=True).serialize(subject, {}))
    assert len(ids) == 1
