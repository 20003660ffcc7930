"""The registry's answers over plain HTTP: paths, numbers of errors, contexts, modes, deletes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.registry import Http, record
from tests.conformance.tidelog_broker import TidelogBroker

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")

Names = Callable[[], str]
ONE = record("Order", ("id", "long"))
TWO = record("Order", ("id", "long"), ("note", "string", ""))
BAD = record("Order", ("id", "string"))


@pytest.fixture
def http(broker: TidelogBroker) -> Http:
    return Http(broker.http)


def text(schema: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema)}


def test_what_is_not_there(http: Http, name: Names) -> None:
    subject = name()
    for method, path, code in (
        ("GET", f"/subjects/{subject}/versions", 40401),
        ("GET", f"/subjects/{subject}/versions/1", 40401),
        ("GET", f"/subjects/{subject}/versions/latest", 40401),
        ("DELETE", f"/subjects/{subject}", 40401),
        ("DELETE", f"/subjects/{subject}/versions/1", 40401),
        ("GET", "/schemas/ids/987654321", 40403),
        ("GET", "/schemas/ids/987654321/subjects", 40403),
        ("GET", "/schemas/ids/x", 40403),
        ("GET", "/schemas/ids/99999999999999", 40403),
        ("GET", f"/config/{subject}", 40408),
        ("GET", f"/mode/{subject}", 40409),
        ("DELETE", f"/config/{subject}", 40401),
        ("DELETE", f"/mode/{subject}", 40401),
    ):
        answer = http.ask(method, path)
        assert (answer.status, answer.code) == (404, code), (method, path, answer)
        assert answer.body["message"]
    http.register(subject, ONE)
    assert http.get(f"/subjects/{subject}/versions/2").code == 40402
    assert http.ask("DELETE", f"/subjects/{subject}/versions/2").code == 40402
    assert http.ask("POST", f"/subjects/{subject}", text(TWO)).code == 40403
    assert http.ask("POST", f"/compatibility/subjects/{subject}/versions/9", text(ONE)).code == 40402
    for version in ("0", "-2", "x", "1.5", "2147483648"):
        answer = http.get(f"/subjects/{subject}/versions/{version}")
        assert (answer.status, answer.code) == (422, 42202)
    assert http.get("/subjects/a/b/c/d").status == 404
    assert http.ask("PUT", f"/subjects/{subject}", {}).status == 405


def test_bad_bodies(http: Http, name: Names) -> None:
    subject = name()
    for body, status, code in (
        (b"{", 400, 400),
        (b"\xff\xfe", 400, 400),
        ([], 422, 422),
        ({}, 422, 42201),
        ({"schema": ""}, 422, 42201),
        ({"schema": 5}, 422, 422),
        ({"schema": "not a schema!"}, 422, 42201),
        ({"schema": '{"type": "record"}'}, 422, 42201),
        ({"schema": '"string"', "schemaType": "XML"}, 422, 42201),
        ({"schema": '"string"', "references": [{}]}, 422, 422),
        ({"schema": '"string"', "references": [{"name": "a", "subject": "b", "version": 0}]}, 422, 42202),
        ({"schema": '"string"', "references": [{"name": "a", "subject": "none", "version": 1}]}, 422, 42201),
        ({"schema": '"string"', "id": "x"}, 422, 422),
        ({"schema": '"string"', "id": 7}, 422, 42205),
        ({"schema": '"string"', "metadata": 3}, 422, 422),
        ({"schema": '"string"', "ruleSet": {"domainRules": [{}]}}, 422, 42210),
        ({"schema": "syntax = 3;", "schemaType": "PROTOBUF"}, 422, 42201),
        ({"schema": '{"type": "nothing"}', "schemaType": "JSON"}, 422, 42201),
        ({"schema": '{"$ref": "http://127.0.0.1:1/x"}', "schemaType": "JSON"}, 422, 42201),
        ({"schema": "[" * 100_000}, 422, 42201),
        ({"schema": '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000}, 422, 42201),
    ):
        answer = http.ask("POST", f"/subjects/{subject}/versions", body)
        assert (answer.status, answer.code) == (status, code), (str(body)[:80], answer)
    assert http.get(f"/subjects/{subject}/versions").code == 40401, "nothing of it was registered"
    assert http.ask("PUT", f"/config/{subject}", {"compatibility": "SOMETIMES"}).code == 42203
    assert http.ask("PUT", f"/config/{subject}", {"colour": "red"}).status == 422
    assert http.ask("PUT", f"/config/{subject}", {"validateFields": True}).code == 42205
    assert http.ask("PUT", f"/mode/{subject}", {"mode": "SLEEPY"}).code == 42204
    assert http.get(f"/subjects/{subject}/versions?deleted=perhaps").status == 422


def test_a_body_that_is_too_large(own_broker: BrokerFactory) -> None:
    running: Any = own_broker({"tidelog.http.body.bytes.max": "1024"})
    answer = Http(running.http).register("orders", {**ONE, "doc": "x" * 2000})
    assert answer.status == 413 and "tidelog.http.body.bytes.max" in answer.body["message"]


def test_headers_and_sizes(http: Http, name: Names) -> None:
    path = f"/subjects/{name()}/versions"
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
        assert http.ask("POST", path, text(ONE), {"Content-Type": kind}).status == 415
    for kind in (
        "application/json",
        "application/vnd.schemaregistry+json; charset=utf-8",
        "application/octet-stream",
    ):
        assert http.ask("POST", path, text(ONE), {"Content-Type": kind}).status == 200
    assert http.ask("GET", "/subjects", None, {"Accept": "text/html"}).status == 406
    assert http.ask("GET", "/subjects", None, {"Accept": "text/html, */*;q=0.1"}).status == 200
    long = record("Order", ("id", "long"))
    long["doc"] = "x" * (2 << 20)
    answer = http.ask("POST", path, text(long))
    assert (answer.status, answer.code) == (422, 42209), "longer than a batch of _schemas may be"
    long["doc"] = "x" * (5 << 20)
    assert http.ask("POST", path, text(long)).status == 413
    long["doc"] = "x" * (1 << 19)
    assert http.ask("POST", path, text(long)).status == 200


@pytest.mark.parametrize("odd", ["a/b", "ünï-✓", "a b%", "..", "a?b#c", ":x", "'; drop table--", "<b>"])
def test_names_of_all_kinds(http: Http, name: Names, odd: str) -> None:
    subject = f"{odd}{name()}" if odd != ".." else name() + "/.."
    path = quote(subject, safe="")
    assert http.register(subject, ONE).status == 200
    assert http.get(f"/subjects/{path}/versions/latest").body["subject"] == subject
    assert subject in http.get("/subjects").body
    assert http.ask("PUT", f"/config/{path}", {"compatibility": "NONE"}).status == 200
    assert http.get(f"/config/{path}").body == {"compatibilityLevel": "NONE"}
    assert http.ask("DELETE", f"/subjects/{path}").body == [1]


@pytest.mark.parametrize("bad", ["__GLOBAL", "__EMPTY", "a\tb", "a\u0000b", "x" * 2000])
def test_names_that_no_subject_may_have(http: Http, bad: str) -> None:
    answer = http.register(bad, ONE)
    assert (answer.status, answer.code) == (422, 42208)


def test_soft_and_hard_deletes(http: Http, name: Names) -> None:
    subject = name()
    path = f"/subjects/{subject}"
    first = http.register(subject, ONE).body["id"]
    http.register(subject, TWO)
    assert http.ask("DELETE", f"{path}?permanent=true").code == 40405
    assert http.ask("DELETE", f"{path}/versions/1?permanent=true").code == 40407
    assert http.ask("DELETE", f"{path}/versions/1").body == 1
    assert http.ask("DELETE", f"{path}/versions/1").code == 40406
    assert http.get(f"{path}/versions/1").code == 40402
    assert http.get(f"{path}/versions/1?deleted=true").body["deleted"] is True
    assert http.get(f"{path}/versions?deletedOnly=true").body == [1]
    assert http.get(f"/schemas/ids/{first}").status == 200, "readers still find it"
    assert http.ask("POST", path, text(ONE)).code == 40403
    assert http.ask("POST", f"{path}?deleted=true", text(ONE)).body["version"] == 1
    again = http.register(subject, ONE).body
    assert (again["id"], again["version"]) == (first, 3), "the same schema, a new version"
    assert http.ask("DELETE", f"{path}/versions/latest").body == 3
    assert http.ask("DELETE", path).body == [2]
    assert http.ask("DELETE", path).code == 40404
    assert http.get(f"{path}/versions?deleted=true").body == [1, 2, 3]
    assert subject in http.get("/subjects?deletedOnly=true").body
    assert http.ask("DELETE", f"{path}?permanent=true").body == [1, 2, 3]
    assert http.ask("DELETE", f"{path}?permanent=true").code == 40401


@pytest.mark.parametrize(
    ("level", "verdicts"),
    [
        # After a, then a with b: what reads the last, what all of them, what is read by them.
        ("NONE", (True, True, True)),
        ("BACKWARD", (True, False, True)),
        ("BACKWARD_TRANSITIVE", (False, False, True)),
        ("FORWARD", (False, True, True)),
        ("FORWARD_TRANSITIVE", (False, True, True)),
        ("FULL", (False, False, True)),
        ("FULL_TRANSITIVE", (False, False, True)),
    ],
)
def test_all_seven_levels(http: Http, name: Names, level: str, verdicts: tuple[bool, ...]) -> None:
    subject = name()
    http.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    http.register(subject, record("R", ("a", "int")))
    http.register(subject, record("R", ("a", "int"), ("b", "int")))
    http.ask("PUT", f"/config/{subject}", {"compatibility": level.lower()})
    tried = (
        record("R", ("b", "int")),  # reads the last one, and not the first
        record("R", ("a", "int"), ("b", "int"), ("c", "int")),  # is read by both, and reads neither
        record("R", ("a", "int"), ("b", "int", 0)),  # reads both; the last one reads it
    )
    for schema, expected in zip(tried, verdicts, strict=True):
        path = f"/compatibility/subjects/{subject}/versions"
        answer = http.ask("POST", f"{path}?verbose=true", text(schema)).body
        assert answer["is_compatible"] is expected, (level, schema, answer)
        assert bool(answer["messages"]) is not expected
        if expected:
            continue
        refused = http.register(subject, schema)
        assert (refused.status, refused.code) == (409, 409) and level in refused.body["message"]


def test_contexts_have_ids_and_settings_of_their_own(http: Http, name: Names) -> None:
    context, subject = f".c{name()}", name()
    full = f":{context}:{subject}"
    inside = http.register(full, record("Inside", ("id", "long"))).body
    assert inside["id"] == 1, "the first of its context"
    assert http.register(f":.:{subject}", ONE).status == 200
    assert http.get(f"/subjects/{subject}/versions").body == [1], "which is the default context's"
    assert context in http.get("/contexts").body and full in http.get("/subjects").body
    assert http.get(f"/subjects?subjectPrefix=:{context}:").body == [full]
    assert http.get(f"/contexts/{context}/subjects").body == [full]
    assert http.get(f"/contexts/{context}/subjects/{subject}/versions/1").body["subject"] == full
    assert '"Inside"' in http.get(f"/schemas/ids/1?subject={quote(full)}").body["schema"]
    assert '"Inside"' in http.get(f"/contexts/{context}/schemas/ids/1").body["schema"]
    http.ask("PUT", f"/contexts/{context}/config", {"compatibility": "NONE"})
    assert http.get(f"/config/{quote(full)}?defaultToGlobal=true").body["compatibilityLevel"] == "NONE"
    assert http.get("/config").body["compatibilityLevel"] == "BACKWARD"
    assert http.register(full, record("Other", ("x", "int"))).body["id"] == 2
    assert http.ask("DELETE", f"/contexts/{context}").code == 42211
    for how in ("", "?permanent=true"):
        http.ask("DELETE", f"/subjects/{quote(full, safe='')}{how}")
    assert http.ask("DELETE", f"/contexts/{context}").status == 204


def test_importing_keeps_ids(http: Http, name: Names) -> None:
    context, subject = f".i{name()}", name()
    full = quote(f":{context}:{subject}", safe="")
    assert http.ask("PUT", f"/mode/{full}", {"mode": "IMPORT"}).body == {"mode": "IMPORT"}
    assert http.ask("POST", f"/subjects/{full}/versions", text(ONE)).code == 42205
    body = {**text(ONE), "id": 500, "version": 7}
    assert http.ask("POST", f"/subjects/{full}/versions", body).body["id"] == 500
    assert http.ask("POST", f"/subjects/{full}/versions", {**text(BAD), "id": 500}).code == 42205
    assert http.ask("POST", f"/subjects/{full}/versions", {**text(BAD), "id": 400}).status == 200
    assert http.get(f"/subjects/{full}/versions").body == [7, 8]
    http.ask("DELETE", f"/mode/{full}")
    assert http.ask("PUT", f"/mode/{full}", {"mode": "IMPORT"}).code == 42205, "there are schemas"
    assert http.ask("PUT", f"/mode/{full}?force=true", {"mode": "IMPORT"}).status == 200
    http.ask("DELETE", f"/mode/{full}")
    more = http.ask("POST", f"/subjects/{full}/versions", text(record("Order", ("id", ["string", "null"]))))
    assert more.body["id"] == 501, "after the largest"


def test_normal_forms_metadata_and_aliases(http: Http, name: Names) -> None:
    subject, other = name(), name()
    one = '{"type": "record", "name": "N", "fields": [{"type": "int", "name": "a", "x": 1, "b": 2}]}'
    two = '{"name": "N", "fields": [{"b": 2, "name": "a", "x": 1, "type": "int"}], "type": "record"}'
    path = f"/subjects/{subject}/versions?normalize=true"
    assert (
        http.ask("POST", path, {"schema": one}).body["id"]
        == http.ask("POST", path, {"schema": two}).body["id"]
    )
    assert http.ask("POST", f"/subjects/{subject}", {"schema": one}).code == 40403
    assert http.ask("POST", f"/subjects/{subject}?normalize=true", {"schema": one}).body["version"] == 1
    settings = {
        "defaultMetadata": {"properties": {"owner": "nobody", "level": "1"}},
        "overrideMetadata": {"properties": {"level": "9"}},
    }
    assert http.ask("PUT", f"/config/{other}", settings).body == settings
    http.ask(
        "POST", f"/subjects/{other}/versions", {**text(ONE), "metadata": {"properties": {"owner": "me"}}}
    )
    told = http.get(f"/subjects/{other}/versions/latest").body
    assert told["metadata"] == {"properties": {"level": "9", "owner": "me"}}
    assert http.ask("POST", f"/subjects/{other}", text(ONE)).body["version"] == 1
    alias = name()
    http.ask("PUT", f"/config/{alias}", {"alias": other})
    assert http.get(f"/subjects/{alias}/versions/latest").body["subject"] == other


def test_lists_in_pages(http: Http, name: Names) -> None:
    prefix = name()
    for at in range(5):
        http.register(f"{prefix}-{at}", ONE)
    http.register(f"{prefix}-4", TWO)
    path = f"/subjects?subjectPrefix={prefix}"
    assert http.get(f"{path}&offset=1&limit=2").body == [f"{prefix}-1", f"{prefix}-2"]
    assert len(http.get(path).body) == 5
    path = f"/schemas?subjectPrefix={prefix}"
    assert len(http.get(path).body) == 6 and len(http.get(f"{path}&latestOnly=true").body) == 5
    assert [one["version"] for one in http.get(f"{path}&offset=4").body] == [1, 2]


def test_what_was_registered_survives_kills_and_is_confluents_log(
    own_broker: BrokerFactory, name: Names
) -> None:
    running: Any = own_broker()
    http = Http(running.http)
    assert "_schemas" not in topics(running.bootstrap), "reading makes no topic"
    assert http.get("/subjects").body == [] and "_schemas" not in topics(running.bootstrap)
    first = http.register("orders-value", ONE).body["id"]
    http.ask("PUT", "/config", {"compatibility": "FULL"})
    http.ask("PUT", "/mode/other", {"mode": "READONLY"})
    http.register("gone", TWO)
    http.ask("DELETE", "/subjects/gone")
    http.ask("DELETE", "/subjects/gone?permanent=true")
    running.kill()
    running.start()
    http = Http(running.http)
    assert http.get("/subjects?deleted=true").body == ["orders-value"]
    assert http.get("/config").body["compatibilityLevel"] == "FULL"
    assert http.get("/mode/other").body == {"mode": "READONLY"}
    assert http.register("orders-value", ONE).body["id"] == first
    assert http.register("more", BAD).body["id"] == first + 2, "an id is not given again"
    found = read_all(running.bootstrap, "_schemas")
    assert found[0][0] == {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
    assert found[0][1]["id"] == first and found[0][1]["deleted"] is False
    assert ({"keytype": "CONFIG", "magic": 0}, {"compatibilityLevel": "FULL"}) in found
    assert (
        {"keytype": "MODE", "subject": "other", "magic": 0},
        {"subject": "other", "mode": "READONLY"},
    ) in found
    assert (
        {"keytype": "DELETE_SUBJECT", "subject": "gone", "magic": 0},
        {"subject": "gone", "version": 1},
    ) in found
    assert ({"keytype": "SCHEMA", "subject": "gone", "version": 1, "magic": 1}, None) in found


def test_what_others_write_to_the_topic_is_taken_in(own_broker: BrokerFactory) -> None:
    from confluent_kafka import Producer

    running: Any = own_broker()
    http = Http(running.http)
    http.register("mine", ONE)
    key = {"keytype": "SCHEMA", "subject": "theirs", "version": 1, "magic": 1}
    value = {"subject": "theirs", "version": 1, "id": 40, "schema": '"string"', "deleted": False}
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce("_schemas", json.dumps(value).encode(), key=json.dumps(key).encode())
    producer.produce("_schemas", b"rubbish", key=b"rubbish")
    assert producer.flush(30) == 0
    assert http.get("/subjects").body == ["mine", "theirs"]
    assert http.register("mine", TWO).body["id"] == 41


def topics(bootstrap: str) -> list[str]:
    from confluent_kafka.admin import AdminClient

    return list(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


def read_all(bootstrap: str, topic: str) -> list[tuple[Any, Any]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            value = message.value()
            found.append((json.loads(message.key()), None if value is None else json.loads(value)))
        return found
    finally:
        consumer.close()
