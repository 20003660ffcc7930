"""Records written through the REST proxy: batches, streams, and schemas by text, id, version or subject."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any

import pytest

from tests.conformance.clients import confluent_consume
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.registry import Answer, Http, record
from tests.conformance.rest import JSON, Names, Topics, packed, post
from tests.conformance.tidelog_broker import TidelogBroker

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no REST proxy")


def test_a_batch_of_records(http_: Http, root: str, topic: Topics, broker: TidelogBroker) -> None:
    written = topic()
    path = f"{root}/topics/{written}/records:batch"
    good = {"value": {"type": "STRING", "data": "x"}}
    entries = [{"id": "a", **good}, {"id": "b", "value": {"type": "XML"}}, {"id": "c", **good}]
    answer = post(http_, path, {"entries": entries})
    assert answer.status == 207
    assert [(one["id"], one["offset"]) for one in answer.body["successes"]] == [("a", 0), ("c", 1)]
    assert [(one["id"], one["error_code"]) for one in answer.body["failures"]] == [("b", 400)]
    assert len(confluent_consume(broker.bootstrap, written, 2)) == 2
    for bad in (
        [],
        [{"id": "a"}, {"id": "a"}],
        [{"id": ""}],
        [{}],
        ["a"],
        [{"id": str(n)} for n in range(1001)],
    ):
        refused = post(http_, path, {"entries": bad})
        assert (refused.status, refused.code) == (422, 42208), bad


def stream(broker: TidelogBroker, path: str, pieces: list[bytes]) -> tuple[int, list[Any]]:
    """A body in chunks, and the answers in it."""
    host, _, port = broker.http.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("POST", path, iter(pieces), JSON, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, [json.loads(line) for line in answer.read().splitlines() if line]
    finally:
        connection.close()


def test_a_stream_of_records(root: str, broker: TidelogBroker, topic: Topics) -> None:
    written = topic()
    path = f"{root}/topics/{written}/records"
    text = b"".join(
        json.dumps({"value": {"type": "JSON", "data": {"n": number}}}).encode() for number in range(300)
    )
    cut = [text[at : at + 1000] for at in range(0, len(text), 1000)]
    status, answers = stream(broker, path, cut)
    assert status == 200 and [one["offset"] for one in answers] == list(range(300))
    # One that is refused does not keep the others from being written.
    bad = [b'{"value": {"type": "BINARY", "data": "AQ=="}}', b'{"value": {"type": "XML", "data": 1}}', b"[]"]
    status, answers = stream(broker, path, [*bad, b'{"value": {"type": "STRING", "data": "end"}} {'])
    assert [one["error_code"] for one in answers] == [200, 400, 400, 200, 400]
    values = [one.message.value for one in confluent_consume(broker.bootstrap, written, 302)]
    assert values[299:] == [b'{"n":299}', b"\x01", b"end"]


def test_a_stream_goes_on_after_its_first_answer(
    http_: Http, root: str, broker: TidelogBroker, topic: Topics
) -> None:
    written, count = topic(), 50
    path = f"{root}/topics/{written}/records"
    http_.register(f"{written}-value", '"string"')
    host, _, port = broker.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: {broker.http}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        one = json.dumps({"value": {"type": "AVRO", "data": "x"}}).encode()
        answers = b""
        for sent in range(count):
            connection.sendall(b"%x\r\n%s\r\n" % (len(one), one))
            while answers.count(b'"offset"') <= sent:
                more = connection.recv(65536)
                assert more, f"record {sent} has no answer"
                answers += more
        connection.sendall(b"0\r\n\r\n")
        while not answers.endswith(b"0\r\n\r\n"):
            answers += connection.recv(65536)


def test_one_record_with_everything(http_: Http, root: str, topic: Topics, broker: TidelogBroker) -> None:
    written = topic(partitions=2)
    path = f"{root}/topics/{written}/records"
    sent = {
        "partition_id": 1,
        "key": {"type": "STRING", "data": "k"},
        "value": {"type": "BINARY", "data": packed(b"\x00v")},
        "headers": [{"name": "h", "value": packed(b"x")}],
        "timestamp": "2026-01-31T09:00:00Z",
    }
    answer = post(http_, path, sent)
    assert answer.status == 200 and (answer.body["partition_id"], answer.body["offset"]) == (1, 0)
    assert answer.body["timestamp"] == "2026-01-31T09:00:00.000Z"
    assert answer.body["key"] == {"type": "STRING", "size": 1}
    for body, status in (
        ({"partition_id": 9, "value": {"type": "JSON", "data": 1}}, 404),
        ({"partition_id": -1}, 404),
        ({"value": {"type": "BINARY", "data": "?"}}, 400),
        ({"value": {"type": "JSON", "data": 1, "schema_id": 1}}, 400),
        (b'{"value": {"type": "JSON", "data": NaN}}', 400),
        (b'{"value": {"type": "JSON", "data": 1e999}}', 400),
        ({"value": {"type": "STRING", "data": "\ud800"}}, 400),
        ({"timestamp": "soon"}, 400),
        (b"{", 400),
        (b"", 400),
        (b"\xff\xff", 400),
    ):
        assert post(http_, path, body).status == status, body
    assert post(http_, f"{root}/topics/none/records", sent).code == 40403


def test_records_in_a_schema(http_: Http, topic: Topics, broker: TidelogBroker) -> None:
    written = topic()
    number = http_.register(f"{written}-value", record("Order", ("id", "long"))).body["id"]
    avro = "application/vnd.kafka.avro.v2+json"
    assert post(http_, f"/topics/{written}", {"records": [{"value": {"id": 7}}]}, avro).status == 200
    (found,) = confluent_consume(broker.bootstrap, written, 1)
    assert found.message.value == b"\x00" + number.to_bytes(4, "big") + b"\x0e"
    bad = post(http_, f"/topics/{written}", {"records": [{"value": {"id": "x"}}]}, avro)
    assert (bad.status, bad.code) == (422, 42203)


ORDER = json.dumps(record("shop.Order", ("id", "long"), ("note", ["null", "string"], None)))


def test_schemas_named_in_a_record(
    http_: Http, root: str, topic: Topics, broker: TidelogBroker, name: Names
) -> None:
    written = topic()
    path, subject, own = f"{root}/topics/{written}/records", f"{written}-value", name()

    def send(**value: Any) -> Answer:
        return post(http_, path, {"value": value})

    made = send(type="AVRO", schema=ORDER, data={"id": 1, "note": {"string": "x"}})
    assert made.status == 200, made
    told = made.body["value"]
    assert (told["type"], told["subject"], told["schema_version"]) == ("AVRO", subject, 1)
    number = told["schema_id"]
    assert http_.get(f"/subjects/{subject}/versions/1").body["id"] == number
    # By id, by version, as the newest; the type may be left out where the schema says it.
    for more in (
        {"schema_id": number},
        {"schema_version": 1},
        {},
        {"type": "AVRO"},
        {"subject": subject, "type": "AVRO", "schema_id": number},
        {"type": "AVRO", "schema": ORDER},
    ):
        again = send(data={"id": 1, "note": "x"}, **more)
        assert again.status == 200 and again.body["value"] == told, more
    values = {one.message.value for one in confluent_consume(broker.bootstrap, written, 7)}
    assert values == {b"\x00" + number.to_bytes(4, "big") + b"\x02\x02\x02x"}
    # Under which name it is registered.
    for more, wanted in (
        ({"subject": own}, own),
        ({"subject_name_strategy": "RECORD_NAME"}, "shop.Order"),
        ({"subject_name_strategy": "TOPIC_RECORD_NAME"}, f"{written}-shop.Order"),
    ):
        found = send(type="AVRO", schema=ORDER, data={"id": 1, "note": None}, **more)
        assert (found.status, found.body["value"]["subject"]) == (200, wanted)
    assert send(subject_name_strategy="RECORD_NAME", schema_id=number, data={"id": 2}).status == 200
    gone = send(schema_id=number, data=None)
    assert gone.status == 200 and gone.body["value"]["size"] == 0
    proto = 'syntax = "proto3"; package shop; message Pear { int32 weight = 1; }'
    pear = send(type="PROTOBUF", schema=proto, subject_name_strategy="RECORD_NAME", data={"weight": 3})
    assert (pear.status, pear.body["value"]["subject"]) == (200, "shop.Pear")
    checked = {"type": "object", "properties": {"n": {"type": "integer"}}}
    json_schema = {"type": "JSONSCHEMA", "schema": json.dumps(checked), "subject": name()}
    assert send(**json_schema, data={"n": 1}).status == 200
    bad = send(**json_schema, data={"n": "x"})
    assert (bad.status, bad.code) == (422, 42203) and "$.n" in bad.body["message"]


def test_schemas_that_are_refused(http_: Http, root: str, topic: Topics) -> None:
    written = topic()
    path = f"{root}/topics/{written}/records"
    good = {"type": "AVRO", "schema": ORDER, "data": {"id": 1, "note": None}}
    number = post(http_, path, {"value": good}).body["value"]["schema_id"]
    for value, status, code in (
        ({**good, "schema": "{"}, 422, 42205),
        ({**good, "schema": '"int"', "data": 1}, 422, 42207),  # not compatible
        ({**good, "data": {"id": "x"}}, 422, 42203),
        ({**good, "data": 7}, 422, 42203),
        ({**good, "schema": {}}, 400, 400),
        ({**good, "schema_id": number}, 400, 400),
        ({**good, "type": None}, 400, 400),
        ({**good, "type": "JSON"}, 400, 400),
        ({**good, "subject": "a", "subject_name_strategy": "TOPIC_NAME"}, 400, 400),
        ({**good, "subject_name_strategy": "COLOUR"}, 400, 400),
        ({"schema": '"int"', "type": "AVRO", "subject_name_strategy": "RECORD_NAME", "data": 1}, 400, 400),
        ({"schema_id": number, "type": "PROTOBUF", "data": {}}, 400, 400),
        ({"schema_id": 2**31 - 1, "data": 1}, 422, 42207),
        ({"schema_id": 0, "data": 1}, 400, 400),
        ({"schema_id": number, "subject": "nobody", "data": 1}, 422, 42207),
        ({"schema_version": 9, "data": 1}, 422, 42207),
        ({"subject": "nobody", "data": 1}, 422, 42207),
        ({"subject_name_strategy": "RECORD_NAME", "data": 1}, 400, 400),
    ):
        answer = post(http_, path, {"value": value})
        assert (answer.status, answer.code) == (status, code), (value, answer)


def test_schemas_named_in_version_2(http_: Http, topic: Topics, broker: TidelogBroker) -> None:
    written, avro = topic(), "application/vnd.kafka.avro.v2+json"
    path, order = f"/topics/{written}", {"id": 1, "note": {"string": "x"}}
    both = {"records": [{"key": "k", "value": order}]}
    assert post(http_, path, both, avro).code == 42201
    missing = post(http_, path, {"key_schema": '"string"', **both}, avro)
    assert (missing.status, missing.code) == (422, 42202)
    made = post(http_, path, {"key_schema": '"string"', "value_schema": ORDER, **both}, avro)
    assert made.status == 200 and made.body["offsets"][0]["error_code"] is None
    key, value = made.body["key_schema_id"], made.body["value_schema_id"]
    by_id = post(http_, path, {"key_schema_id": key, "value_schema_id": value, **both}, avro)
    assert (by_id.status, by_id.body["value_schema_id"]) == (200, value)
    found = {(one.message.key, one.message.value) for one in confluent_consume(broker.bootstrap, written, 2)}
    assert found == {
        (b"\0" + key.to_bytes(4, "big") + b"\x02k", b"\0" + value.to_bytes(4, "big") + b"\x02\x02\x02x")
    }
    for body, kind, code in (
        ({"value_schema": ORDER, "value_schema_id": 1}, "avro", 422),
        ({"value_schema": "{"}, "avro", 42205),
        ({"value_schema_id": 2**31 - 1}, "avro", 42207),
        ({"value_schema_id": value}, "protobuf", 42207),
        ({"value_schema": ORDER}, "json", 422),
    ):
        kind = f"application/vnd.kafka.{kind}.v2+json"
        answer = post(http_, path, {"records": [{"value": order}], **body}, kind)
        assert (answer.status, answer.code) == (422, code), (body, answer)


def test_a_record_that_is_too_large_gets_its_answer(
    http_: Http, root: str, broker: TidelogBroker, topic: Topics
) -> None:
    written = topic()
    path = f"{root}/topics/{written}/records"
    data = [["ab", one, {"x": None}] for one in range(20_000)]
    long = json.dumps({"value": {"type": "JSON", "data": data}}).encode()
    pieces = [long[at : at + 50_000] for at in range(0, len(long), 50_000)]
    status, answers = stream(broker, path, pieces * 2)
    assert status == 200 and [one["offset"] for one in answers] == [0, 1]
    status, answers = stream(
        broker, path, [b'{"value": {"type": "JSON", "data": "', *[b"[" * (1 << 20)] * 20]
    )
    assert status == 413 and "too large" in answers[0]["message"]
    body = {"topic_name": written, "configs": [{"name": "x" * (2 << 20), "value": "1"}]}
    answer = post(http_, f"{root}/topics", body)
    assert answer.status == 413 and "1048576 bytes at most" in answer.body["message"]


def test_records_are_json_by_their_type_too(http_: Http, root: str, topic: Topics) -> None:
    path, one = f"{root}/topics/{topic()}/records", {"value": {"type": "STRING", "data": "x"}}
    assert post(http_, path, one, "text/plain").status == 415
    assert post(http_, path, one).status == 200
    gone = post(http_, path, {**one, "partition_id": -1})
    assert (gone.status, gone.code) == (404, 40403)


def test_a_schema_that_was_deleted_is_registered_again(http_: Http, root: str, topic: Topics) -> None:
    written = topic()
    path, subject = f"{root}/topics/{written}/records", f"{written}-value"
    one = {
        "value": {
            "type": "AVRO",
            "schema": json.dumps(record("WasDeleted", ("id", "long"))),
            "data": {"id": 7},
        }
    }
    first = post(http_, path, one).body["value"]["schema_id"]
    assert http_.ask("DELETE", f"/subjects/{subject}").status == 200
    assert http_.ask("DELETE", f"/subjects/{subject}?permanent=true").status == 200
    assert http_.get(f"/schemas/ids/{first}").status == 404
    time.sleep(1.1)  # for so long the proxy does not ask the registry again
    then = post(http_, path, one).body["value"]["schema_id"]
    assert http_.get(f"/schemas/ids/{then}").status == 200
    assert http_.get("/subjects").body.count(subject) == 1
