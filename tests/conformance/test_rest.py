"""The REST proxy over plain HTTP: versions 3 and 2, and what they refuse."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.clients import confluent_consume
from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.consuming import fill
from tests.conformance.registry import Answer, Http, record
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.aio import Admin, TopicPartition

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no REST proxy")

Names = Callable[[], str]
Topics = Callable[..., str]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def http_(broker: TidelogBroker) -> Http:
    return Http(broker.http)


@pytest.fixture
def root(http_: Http) -> str:
    return f"/v3/clusters/{http_.get('/v3/clusters').body['data'][0]['cluster_id']}"


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def post(http_: Http, path: str, body: Any, kind: str = "application/json") -> Answer:
    return http_.ask("POST", path, body, {"Content-Type": kind})


def test_topics_are_made_seen_changed_and_deleted(http_: Http, root: str, name: Names) -> None:
    topic = name()
    setting = {"name": "retention.ms", "value": "3600000"}
    body = {"topic_name": topic, "partitions_count": 2, "replication_factor": 1, "configs": [setting]}
    made = post(http_, f"{root}/topics", body)
    assert made.status == 201 and made.body["partitions_count"] == 2
    again = post(http_, f"{root}/topics", body)
    assert (again.status, again.code) == (400, 40002)
    assert http_.get(f"{root}/topics/{topic}").body["replication_factor"] == 1
    assert topic in [one["topic_name"] for one in http_.get(f"{root}/topics").body["data"]]
    assert len(http_.get(f"{root}/topics/{topic}/partitions").body["data"]) == 2
    replicas = http_.get(f"{root}/topics/{topic}/partitions/1/replicas").body["data"]
    assert [one["is_leader"] and one["is_in_sync"] for one in replicas] == [True]
    configs = f"{root}/topics/{topic}/configs"
    assert http_.get(f"{configs}/retention.ms").body["value"] == "3600000"
    assert http_.ask("PUT", f"{configs}/retention.ms", {"value": "7200000"}, JSON).status == 204
    assert http_.get(f"{configs}/retention.ms").body["value"] == "7200000"
    changes = [
        {"name": "retention.ms", "operation": "DELETE"},
        {"name": "cleanup.policy", "value": "compact"},
    ]
    assert post(http_, f"{configs}:alter", {"data": changes}).status == 204
    found = {one["name"]: one for one in http_.get(configs).body["data"]}
    assert found["retention.ms"]["is_default"] and found["cleanup.policy"]["value"] == "compact"
    bad = http_.ask("PUT", f"{configs}/retention.ms", {"value": "soon"}, JSON)
    assert (bad.status, bad.code) == (400, 40002)
    assert http_.ask("DELETE", f"{root}/topics/{topic}").status == 204
    gone = http_.get(f"{root}/topics/{topic}")
    assert (gone.status, gone.code) == (404, 40403)


def test_brokers_and_clusters(http_: Http, root: str) -> None:
    assert http_.get(root).body["kind"] == "KafkaCluster"
    (one,) = http_.get(f"{root}/brokers").body["data"]
    assert http_.get(f"{root}/brokers/{one['broker_id']}").body["port"] == one["port"]
    listed = http_.get(f"{root}/brokers/{one['broker_id']}/configs").body["data"]
    assert "log.retention.ms" in {setting["name"] for setting in listed}
    assert http_.get(f"{root}/brokers/99").status == 404
    assert http_.get("/v3/clusters/another/topics").status == 404


async def test_groups_and_their_lag(
    http_: Http, root: str, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read, group = topic(), name()
    fill(broker.bootstrap, read, each=10)
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.alter_group_offsets(group, {TopicPartition(read, 0): 4})
    assert group in [one["consumer_group_id"] for one in http_.get(f"{root}/consumer-groups").body["data"]]
    path = f"{root}/consumer-groups/{group}"
    assert http_.get(path).body["state"] == "EMPTY"
    assert http_.get(f"{path}/consumers").body["data"] == []
    (lag,) = http_.get(f"{path}/lags").body["data"]
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (4, 10, 6)
    summary = http_.get(f"{path}/lag-summary").body
    assert (summary["total_lag"], summary["max_lag_topic_name"]) == (6, read)
    assert http_.get(f"{root}/consumer-groups/{name()}").status == 404


def links(found: Any) -> Iterator[str]:
    if isinstance(found, list):
        for one in found:
            yield from links(one)
    elif isinstance(found, dict):
        for name, one in found.items():
            if name in ("self", "related"):
                yield one
            else:
                yield from links(one)


def test_every_link_in_an_answer_leads_somewhere(own_broker: BrokerFactory) -> None:
    broker = own_broker({})
    assert isinstance(broker, TidelogBroker)
    http_ = Http(broker.http)
    root = f"/v3/clusters/{http_.get('/v3/clusters').body['data'][0]['cluster_id']}"
    assert post(http_, f"{root}/topics", {"topic_name": "linked", "partitions_count": 2}).status == 201
    fill(broker.bootstrap, "linked", partitions=2, each=2)
    assert post(http_, "/consumers/readers", {"name": "one", "auto.offset.reset": "earliest"}).status == 200
    instance = "/consumers/readers/instances/one"
    assert post(http_, f"{instance}/subscription", {"topics": ["linked"]}).status == 204
    found: list[Any] = []
    while len(found) < 4:
        found += http_.ask("GET", f"{instance}/records", None, {"Accept": "*/*"}).body
    assert len(post(http_, f"{instance}/offsets", {}).body) == 2
    lags = f"{http_.url}{root}/consumer-groups/readers/lags"
    seen, waiting, kinds = set(), [f"{http_.url}/v3/clusters", lags], set()
    while waiting:
        url = waiting.pop()
        if url in seen or "__consumer_offsets" in url or "configs/" in url:
            continue
        seen.add(url)
        answer = http_.get(url.removeprefix(http_.url))
        assert answer.status == 200, (url, answer)
        kinds.add(answer.body["kind"])
        assert answer.body["metadata"]["self"] == url
        waiting += links(answer.body)
    assert kinds >= {
        "KafkaReplica",
        "KafkaConsumer",
        "KafkaConsumerAssignment",
        "KafkaConsumerLag",
        "KafkaPartition",
    }


def test_partitions_are_added(http_: Http, root: str, topic: Topics) -> None:
    grown = topic(partitions=2)
    path = f"{root}/topics/{grown}"
    assert http_.ask("PATCH", path, {"partitions_count": 3}, JSON).body["partitions_count"] == 3
    fewer = http_.ask("PATCH", path, {"partitions_count": 1}, JSON)
    assert (fewer.status, fewer.code) == (400, 40002) and fewer.body["message"].count(grown) == 1
    assert http_.ask("PATCH", path, {}, JSON).status == 400


def test_settings_of_all_brokers(http_: Http, root: str) -> None:
    path, name_ = f"{root}/broker-configs", "log.cleaner.delete.retention.ms"
    assert http_.ask("PUT", f"{path}/{name_}", {"value": "86400001"}, JSON).status == 204
    (found,) = [one for one in http_.get(path).body["data"] if one["name"] == name_]
    assert (found["value"], found["config_type"]) == ("86400001", "BROKER")
    assert http_.ask("DELETE", f"{path}/{name_}").status == 204
    assert http_.get(f"{path}/{name_}").status == 404
    assert post(http_, f"{path}:alter", {"data": [{"name": "nothing", "value": "1"}]}).status == 400


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


def test_version_2(http_: Http, topic: Topics, broker: TidelogBroker) -> None:
    written = topic(partitions=2)
    assert written in http_.get("/topics").body
    assert len(http_.get(f"/topics/{written}").body["partitions"]) == 2
    assert http_.get(f"/topics/{written}/partitions/1").body["partition"] == 1
    assert http_.get("/topics/none").code == 40401
    assert http_.get(f"/topics/{written}/partitions/7").code == 40402
    binary, plain = "application/vnd.kafka.binary.v2+json", "application/vnd.kafka.json.v2+json"
    records = {"records": [{"value": packed(b"a"), "partition": 0}, {"value": packed(b"b"), "partition": 1}]}
    made = post(http_, f"/topics/{written}", records, binary)
    assert [one["offset"] for one in made.body["offsets"]] == [0, 0]
    made = post(
        http_, f"/topics/{written}/partitions/1", {"records": [{"key": "k", "value": {"a": 1}}]}, plain
    )
    assert made.body["offsets"][0] == {"partition": 1, "offset": 1, "error_code": None, "error": None}
    offsets = http_.get(f"/topics/{written}/partitions/1/offsets").body
    assert offsets == {"beginning_offset": 0, "end_offset": 2}
    assert post(http_, f"/topics/{written}", records, "text/plain").status == 415
    assert post(http_, f"/topics/{written}", {"records": []}, plain).status == 422
    assert post(http_, f"/topics/{written}", {"records": [{"value": "?"}]}, binary).status == 400


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


def told(broker: TidelogBroker, path: str, count: int, last_id: str = "") -> list[tuple[str, Any]]:
    """The first events after "begun": id and data of each."""
    host, _, port = broker.http.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", path, headers={"Last-Event-ID": last_id} if last_id else {})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
        found: list[tuple[str, Any]] = []
        at = ""
        while len(found) < count + 1:
            line = answer.readline().decode().rstrip("\n")
            assert line != ": quiet", f"no more events came after {found}"
            if line.startswith("id: "):
                at = line[4:]
            elif line.startswith("data: "):
                found.append((at, json.loads(line[6:])))
        return found[1:]
    finally:
        connection.close()


def test_events_go_on_where_they_ended(http_: Http, broker: TidelogBroker, topic: Topics) -> None:
    read = topic(partitions=2)
    sent = {one.decode() for one in fill(broker.bootstrap, read, partitions=2, each=5)}
    first = told(broker, f"/topics/{read}/events?from=earliest", 4)
    rest = told(broker, f"/topics/{read}/events", 6, first[-1][0])
    assert {one["value"] for _, one in first + rest} == sent
    ((at, one),) = told(broker, f"/topics/{read}/events?from=3&partition=1", 1)
    assert (at, one["partition"], one["offset"], one["value"]) == ("1:4", 1, 3, "1:3")
    script = {"records": [{"key": packed(b"<b>"), "value": packed(b"\n\ndata: x"), "partition": 0}]}
    assert post(http_, f"/topics/{read}", script, "application/vnd.kafka.binary.v2+json").status == 200
    ((_, one),) = told(broker, f"/topics/{read}/events?from=earliest&key=%3Cb%3E", 1)
    assert one["value"] == "\n\ndata: x"
    for query, status in (("from=soon", 400), ("partition=x", 400), ("partition=7", 404)):
        assert http_.get(f"/topics/{read}/events?{query}").status == status
    assert http_.ask("GET", f"/topics/{read}/events", None, {"Last-Event-ID": "x"}).status == 400


def test_the_document_names_what_is_served(http_: Http, topic: Topics) -> None:
    found = http_.get("/openapi.json").body
    there = topic()
    for path, operations in found["paths"].items():
        for name in re.findall(r"{(\w+)}", path):
            assert name in {one["name"] for one in next(iter(operations.values()))["parameters"]}
        if "get" in operations and not path.endswith("/events"):
            asked = path.replace("{topic}", there).replace("{partition}", "0").replace("{version}", "1")
            answer = http_.get(asked)
            assert answer.status in (200, 404) and "there is nothing at" not in str(answer.body), path
        assert http_.ask("LINK", path.replace("{topic}", there)).status == 405


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_gets_its_answer(
    broker: TidelogBroker, topic: Topics, chunked: bool
) -> None:
    """A client that sends everything before it reads: most do."""
    host, _, port = broker.http.partition(":")
    piece, count = b" " * (1 << 20), 40
    kind = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
    length = {} if chunked else {"Content-Length": str(count * len(piece))}
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request(
            "POST", f"/topics/{topic()}", iter([piece] * count), kind | length, encode_chunked=chunked
        )
        answer = connection.getresponse()
        assert answer.status == 413
        assert "tidelog.http.body.bytes.max" in json.loads(answer.read())["message"]
    finally:
        connection.close()


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


def test_fields_that_nobody_knows_are_refused(http_: Http, root: str, topic: Topics, name: Names) -> None:
    """A misspelt field would do something else than was meant: a tombstone, one partition instead of seven."""
    written = topic(partitions=2)
    json_ = "application/vnd.kafka.json.v2+json"
    for body in (
        {"records": [{"key": "k", "Value": 1}]},
        {"records": [{"value": 1, "headers": []}]},
        {"records": [{"value": 1}], "value_shema": "x"},
    ):
        refused = post(http_, f"/topics/{written}", body, json_)
        assert refused.status == 422 and "has no field" in refused.body["message"], body
    value = {"type": "STRING", "data": "x"}
    for record_ in (
        {"Value": value},
        {"value": {**value, "shema": "x"}},
        {"value": value, "headers": [{"name": "a", "Value": "eA=="}]},
        {"value": value, "id": "only in a batch"},
    ):
        refused = post(http_, f"{root}/topics/{written}/records", record_)
        assert refused.status == 400 and "has no field" in refused.body["message"], record_
    assert post(http_, f"{root}/topics/{written}/records:batch", {"entrys": []}).status == 422
    fresh = name()
    for new in (
        {"topic_name": fresh, "partition_count": 7},
        {"topic_name": fresh, "configs": [{"name": "retention.ms", "valeu": "1"}]},
        {"topic_name": fresh, "validate_only": "yes"},
    ):
        assert post(http_, f"{root}/topics", new).status == 400, new
    assert http_.get(f"{root}/topics/{fresh}").status == 404
    configs = f"{root}/topics/{written}/configs"
    assert post(http_, f"{configs}:alter", {"data": [], "validateOnly": True}).status == 400
    wrong = http_.ask("PUT", f"{configs}/retention.ms", {"value": True}, JSON)
    assert wrong.status == 400 and wrong.body["message"] == "value must be a string, not True"
    assert http_.ask("PATCH", f"{root}/topics/{written}", {"partitions": 3}, JSON).status == 400
    ends = (
        http_.get(f"/topics/{written}/partitions/0/offsets").body,
        http_.get(f"/topics/{written}/partitions/1/offsets").body,
    )
    assert [one["end_offset"] for one in ends] == [0, 0], "nothing was written"


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


def test_what_moves_and_the_settings_of_every_broker(http_: Http, root: str, topic: Topics) -> None:
    still = topic()
    for path in ("topics/-/partitions/-/reassignment", f"topics/{still}/partitions/-/reassignment"):
        found = http_.get(f"{root}/{path}")
        assert (
            found.status == 200 and found.body["kind"] == "KafkaReassignmentList" and not found.body["data"]
        )
    assert http_.get(f"{root}/topics/{still}/partitions/0/reassignment").status == 404
    assert http_.get(f"{root}/topics/nowhere/partitions/-/reassignment").code == 40403
    one = http_.get(f"{root}/brokers").body["data"][0]["broker_id"]
    every = http_.get(f"{root}/brokers/-/configs").body["data"]
    own = http_.get(f"{root}/brokers/{one}/configs").body["data"]
    assert len(own) > 10 and [entry for entry in every if entry["broker_id"] == one] == own
