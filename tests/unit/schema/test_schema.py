from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

for needed in ("fastavro", "jsonschema", "google.protobuf", "httpx2"):
    pytest.importorskip(needed)

from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer  # noqa: E402
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer  # noqa: E402
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tests.unit.schema.messages import messages  # noqa: E402
from tests.unit.schema.stub import Stub, registry_stub  # noqa: E402
from tidelog.schema import (  # noqa: E402
    Avro,
    Bytes,
    Json,
    JsonSchema,
    Protobuf,
    Registry,
    RegistryError,
    SerializationError,
    Text,
)
from tidelog.schema.framing import get_indexes, put_indexes  # noqa: E402
from tidelog.schema.serializer import deserializer_of, serializer_of  # noqa: E402

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
SHAPE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id"],
}
VALUE = {"id": 7, "name": "größer", "tags": ["a", "b"]}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with registry_stub() as running:
        yield running


def context(topic: str = "orders", field: str = MessageField.VALUE) -> SerializationContext:
    return SerializationContext(topic, field)


def test_avro_is_confluents_byte_for_byte(stub: Stub) -> None:
    ours = Avro(ORDER, registry=Registry(stub.url))
    client = SchemaRegistryClient({"url": stub.url})
    theirs = AvroSerializer(client, json.dumps(ORDER))
    data = ours.serialize("orders", VALUE)
    assert data == theirs(VALUE, context()) and data is not None and data[:1] == b"\0"
    assert AvroDeserializer(client)(data, context()) == VALUE
    assert Avro(registry=Registry(stub.url)).deserialize("orders", data) == VALUE
    assert set(stub.subjects) == {"orders-value"} and len(stub.schemas) == 1
    ours.serialize("orders", VALUE, is_key=True)
    assert set(stub.subjects) == {"orders-value", "orders-key"}


def test_avro_reads_what_an_older_schema_wrote(stub: Stub) -> None:
    registry = Registry(stub.url)
    old = {"type": "record", "name": "Order", "fields": ORDER["fields"][:1]}  # type: ignore[index]
    new = {**ORDER, "fields": [*ORDER["fields"][:2], {"name": "more", "type": "int", "default": 3}]}  # type: ignore[index]
    data = Avro(old, registry=registry).serialize("orders", {"id": 1})
    assert Avro(new, registry=registry).deserialize("orders", data) == {"id": 1, "name": None, "more": 3}


def test_avro_follows_references(stub: Stub) -> None:
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]}
    stub._add("line", {"schema": json.dumps(line)})
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "one", "type": "shop.Line"}]}
    body = {
        "schema": json.dumps(basket),
        "references": [{"name": "shop.Line", "subject": "line", "version": 1}],
    }
    stub._add("baskets-value", body)
    avro = Avro(registry=Registry(stub.url), use_latest=True)
    data = avro.serialize("baskets", {"one": {"n": 3}})
    assert Avro(registry=Registry(stub.url)).deserialize("baskets", data) == {"one": {"n": 3}}


def test_json_schema_is_confluents_byte_for_byte(stub: Stub) -> None:
    value = {"id": 7, "name": "größer"}
    ours = JsonSchema(json.dumps(SHAPE), registry=Registry(stub.url))
    theirs = JSONSerializer(json.dumps(SHAPE), SchemaRegistryClient({"url": stub.url}))
    data = ours.serialize("orders", value)
    assert data == theirs(value, context())
    assert JSONDeserializer(json.dumps(SHAPE))(data, context()) == value
    assert ours.deserialize("orders", data) == value
    assert len(stub.schemas) == 1 and stub.schemas[0]["schemaType"] == "JSON"
    with pytest.raises(SerializationError, match=r"does not fit its schema at \$.id: .x. is not of type"):
        ours.serialize("orders", {"id": "x"})


@pytest.mark.parametrize("name", ["Order", "Line"])
def test_protobuf_is_confluents_byte_for_byte(stub: Stub, name: str) -> None:
    kinds = messages()
    value = (
        kinds["Order"](id=7, name="x") if name == "Order" else kinds["Line"](price=kinds["Price"](cents=5))
    )
    ours = Protobuf(kinds[name], registry=Registry(stub.url))
    data = ours.serialize("orders", value)
    schemas = list(stub.schemas)
    theirs = ProtobufSerializer(
        kinds[name], SchemaRegistryClient({"url": stub.url}), {"use.deprecated.format": False}
    )
    assert data == theirs(value, context()) and stub.schemas == schemas
    reader = ProtobufDeserializer(kinds[name], {"use.deprecated.format": False})
    assert reader(data, context()) == value == ours.deserialize("orders", data)
    assert set(stub.subjects) == {"orders-value", "price.proto"}
    with pytest.raises(SerializationError, match=r"is needed for topic 'orders', not dict"):
        ours.serialize("orders", {"id": 7})


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5), st.binary(max_size=5))
def test_message_indexes_come_back(path: list[int], rest: bytes) -> None:
    indexes, left = get_indexes("t", memoryview(put_indexes(path) + rest))
    assert (indexes, bytes(left)) == (path, rest)


def test_a_registry_is_asked_once_with_its_login_and_the_next_one_when_it_is_down(stub: Stub) -> None:
    registry = Registry(["http://127.0.0.1:9", stub.url], username="me", password="p:w")
    avro = Avro(ORDER, registry=registry)
    assert not avro.ready("orders")
    avro.prepare("orders")
    assert avro.ready("orders")
    for _ in range(3):
        data = avro.serialize("orders", VALUE)
        assert avro.knows(data) and avro.deserialize("orders", data) == VALUE
    assert stub.asked == ["POST /subjects/orders-value/versions"]
    assert stub.authorizations == ["Basic bWU6cDp3"]


def test_what_a_registry_refuses_is_told(stub: Stub) -> None:
    strict = Avro(ORDER, registry=Registry(stub.url), auto_register=False)
    with pytest.raises(RegistryError, match="Subject 'orders-value' not found") as caught:
        strict.serialize("orders", VALUE)
    assert caught.value.status == 404
    with pytest.raises(RegistryError, match="is it running"):
        Registry("http://127.0.0.1:9").schema(1)
    with pytest.raises(RegistryError, match="Schema not found"):
        Avro(registry=Registry(stub.url)).deserialize("orders", b"\0\0\0\0\x09xyz")
    for wrong in ("localhost:8081", "ftp://x"):
        with pytest.raises(ValueError, match="http://HOST:PORT"):
            Registry(wrong)


def test_values_and_bytes_that_do_not_fit_are_refused(stub: Stub) -> None:
    avro = Avro(ORDER, registry=Registry(stub.url))
    with pytest.raises(SerializationError, match="does not fit its schema"):
        avro.serialize("orders", {"id": "text"})
    with pytest.raises(SerializationError, match="does not begin with a schema id"):
        avro.deserialize("orders", b"plain")
    with pytest.raises(SerializationError, match="not an Avro schema"):
        Avro("{}", registry=Registry(stub.url))
    for serializer in (avro, JsonSchema(SHAPE, registry=Registry(stub.url)), Json(), Text(), Bytes()):
        assert serializer.serialize("orders", None) is None and serializer.deserialize("orders", None) is None


def test_plain_serializers() -> None:
    assert Text().serialize("t", "größer") == "größer".encode()
    assert Text("latin-1").deserialize("t", b"\xfc") == "ü"
    assert Json().serialize("t", {"a": [1, None], "ü": 1.5}) == '{"a":[1,null],"ü":1.5}'.encode()
    assert Json().deserialize("t", b'{"a": 1}') == {"a": 1}
    assert Bytes().serialize("t", bytearray(b"x")) == b"x"
    cases: list[tuple[Any, Any]] = [(Text(), b"x"), (Json(), object()), (Bytes(), "x")]
    for serializer, wrong in cases:
        with pytest.raises(SerializationError):
            serializer.serialize("t", wrong)
    for serializer in (Text(), Json()):
        with pytest.raises(SerializationError, match="a record of topic 't' is not"):
            serializer.deserialize("t", b"\xff\xfe")


def test_functions_serve_as_serializers() -> None:
    made = serializer_of(str.encode)
    assert made is not None and made.serialize("t", "x") == b"x"
    read = deserializer_of(lambda data: data[::-1])
    assert read is not None and read.deserialize("t", b"ab") == b"ba"
    with pytest.raises(ValueError, match="is not a serializer"):
        serializer_of(7)  # type: ignore[arg-type]


def test_json_that_is_too_deep_is_not_json(stub: Stub) -> None:
    deep = b"[" * 100_000
    for serializer, data in ((Json(), deep), (JsonSchema(registry=Registry(stub.url)), b"\0\0\0\0\1" + deep)):
        with pytest.raises(SerializationError, match="is not JSON"):
            serializer.deserialize("t", data)
