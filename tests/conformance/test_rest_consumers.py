"""Consumer instances of the REST proxy over plain HTTP: read, moved, committed, shared, bounded, and gone when idle."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.conformance.clients import confluent_consume
from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.consuming import fill
from tests.conformance.registry import Answer, Http, record
from tests.conformance.tidelog_broker import TidelogBroker

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no REST proxy")

Names = Callable[[], str]
Topics = Callable[..., str]
V2 = "application/vnd.kafka.v2+json"
PATIENCE_S = 180


def of(name: str) -> str:
    return f"application/vnd.kafka.{name}.v2+json"


class Member:
    """One instance, as a client knows it: by its base_uri."""

    def __init__(self, http_: Http, group: str, **settings: Any) -> None:
        settings = {"auto.offset.reset": "earliest", **{k.replace("_", "."): v for k, v in settings.items()}}
        made = http_.ask("POST", f"/consumers/{group}", settings, {"Content-Type": V2})
        assert made.status == 200, made
        assert made.body["base_uri"] == f"{http_.url}/consumers/{group}/instances/{made.body['instance_id']}"
        self._http = http_
        self._path = made.body["base_uri"].removeprefix(http_.url)

    def ask(self, method: str, path: str = "", body: Any = None, accept: str = "*/*") -> Answer:
        return self._http.ask(method, self._path + path, body, {"Content-Type": V2, "Accept": accept})

    def done(self, method: str, path: str, body: Any = None) -> None:
        answer = self.ask(method, path, body)
        assert answer.status == 204, answer

    def read(self, count: int, query: str = "") -> list[dict[str, Any]]:
        """As many records as wanted, from as many answers as it takes."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            answer = self.ask("GET", f"/records{query}")
            assert answer.status == 200, answer
            found += answer.body
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        return found


def part(topic: str, partition: int = 0, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, **more}


def values(records: list[dict[str, Any]]) -> list[bytes]:
    return [base64.b64decode(one["value"]) for one in records]


def test_a_group_of_two_shares_a_topic(
    http_: Http, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read, group = topic(partitions=2), name()
    sent = sorted(fill(broker.bootstrap, read, partitions=2, each=200))
    first, second = Member(http_, group), Member(http_, group)
    first.done("POST", "/subscription", {"topics": [read]})
    # It has the records of both partitions in hand when it loses one of them.
    found = values(first.read(3, "?max_bytes=1"))
    second.done("POST", "/subscription", {"topics": [read]})
    for one in (first, second):
        assert one.ask("GET", "/subscription").body == {"topics": [read]}
    deadline = time.monotonic() + PATIENCE_S
    held: list[list[Any]] = []
    while (len(found) < len(sent) or [len(one) for one in held] != [1, 1]) and time.monotonic() < deadline:
        both = [len(one) for one in held] == [1, 1]
        for one in (first, second):
            found += values(one.ask("GET", f"/records?timeout=50&max_bytes={100_000 if both else 1}").body)
        held = [one.ask("GET", "/assignments").body["partitions"] for one in (first, second)]
    for one in (first, second):
        found += values(one.ask("GET", "/records?timeout=50").body)
    assert sorted(found) == sent, "each once"
    assert sorted(one["partition"] for many in held for one in many) == [0, 1]
    for one in (first, second):
        one.done("DELETE", "")
        gone = one.ask("GET", "/records")
        assert (gone.status, gone.code) == (404, 40403)


def test_what_was_read_is_committed_when_the_instance_is_deleted(
    http_: Http, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read, group = topic(), name()
    fill(broker.bootstrap, read, each=10)
    first = Member(http_, group, name="one")
    first.done("POST", "/subscription", {"topics": [read]})
    # One record in an answer, however small the answer may be; the others wait for the next one.
    assert [one["offset"] for one in first.read(1, "?max_bytes=1")] == [0]
    assert [one["offset"] for one in first.read(3, "?max_bytes=1")] == [1, 2, 3]
    taken = http_.ask("POST", f"/consumers/{group}", {"name": "one"}, {"Content-Type": V2})
    assert (taken.status, taken.code) == (409, 40902)
    first.done("DELETE", "")
    second = Member(http_, group, name="one")
    second.done("POST", "/subscription", {"topics": [read]})
    assert [one["offset"] for one in second.read(6)] == [4, 5, 6, 7, 8, 9]
    second.done("DELETE", "")


def test_without_auto_commit_only_what_was_committed_counts(
    http_: Http, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read, group = topic(), name()
    fill(broker.bootstrap, read, each=10)
    first = Member(http_, group, auto_commit_enable="false")
    first.done("POST", "/subscription", {"topics": [read]})
    first.read(10)
    wanted = {"partitions": [part(read)]}
    assert first.ask("GET", "/offsets", wanted).body == {"offsets": []}
    # The offset of the last record that is done: the group goes on behind it.
    done = first.ask("POST", "/offsets", {"offsets": [part(read, offset=3, metadata="half")]})
    assert (done.status, done.body) == (200, [part(read, offset=4)])
    assert first.ask("GET", "/offsets", wanted).body == {"offsets": [part(read, offset=4, metadata="half")]}
    first.done("DELETE", "")
    second = Member(http_, group, auto_commit_enable=False)
    second.done("POST", "/subscription", {"topics": [read]})
    assert second.read(6)[0]["offset"] == 4
    assert second.ask("POST", "/offsets").body == [part(read, offset=10)]
    assert second.ask("GET", "/offsets").body["offsets"][0]["offset"] == 10
    second.done("DELETE", "")


def test_partitions_by_hand_and_positions(
    http_: Http, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read = topic(partitions=2)
    fill(broker.bootstrap, read, partitions=2, each=5)
    one = Member(http_, name())
    nothing = one.ask("GET", "/records")
    assert (nothing.status, nothing.code) == (409, 40903)
    one.done("POST", "/assignments", {"partitions": [part(read, 1)]})
    assert one.ask("GET", "/assignments").body == {"partitions": [part(read, 1)]}
    assert [at["offset"] for at in one.read(5)] == [0, 1, 2, 3, 4]
    one.done("POST", "/positions", {"offsets": [part(read, 1, offset=3)]})
    assert [at["offset"] for at in one.read(2)] == [3, 4]
    one.done("POST", "/positions/beginning", {"partitions": [part(read, 1)]})
    assert one.read(5)[0]["offset"] == 0
    one.done("POST", "/positions/beginning", {"partitions": [part(read, 1)]})
    one.done("POST", "/positions/end", {"partitions": [part(read, 1)]})
    assert one.ask("GET", "/records?timeout=50").body == []
    one.done("POST", "/positions", {"timestamps": [part(read, 1, timestamp="2000-01-01T00:00:00Z")]})
    assert one.read(5)[0]["offset"] == 0
    one.done("POST", "/positions", {"timestamps": [part(read, 1, timestamp="2100-01-01T00:00:00Z")]})
    assert one.ask("GET", "/records?timeout=50").body == []
    other = one.ask("POST", "/positions", {"offsets": [part(read, 0, offset=3)]})
    assert (other.status, other.code) == (409, 40903)
    mixed = one.ask("POST", "/subscription", {"topics": [read]})
    assert (mixed.status, mixed.code) == (409, 40903)
    one.done("DELETE", "/subscription")
    one.done("POST", "/subscription", {"topic_pattern": f"{read[:-1]}.|never"})
    assert read in one.ask("GET", "/subscription").body["topics"]
    assert {at["topic"] for at in one.read(10)} == {read}
    one.done("DELETE", "")


def test_formats(http_: Http, broker: TidelogBroker, topic: Topics, name: Names) -> None:
    plain = topic()
    records = {"records": [{"key": "k", "value": {"a": [1, None]}}, {"value": None}]}
    assert http_.ask("POST", f"/topics/{plain}", records, {"Content-Type": of("json")}).status == 200
    one = Member(http_, name(), format="json")
    one.done("POST", "/subscription", {"topics": [plain]})
    found = one.read(2)
    assert found[0] == {"topic": plain, "key": "k", "value": {"a": [1, None]}, "partition": 0, "offset": 0}
    assert found[1]["value"] is None
    other = one.ask("GET", "/records", accept=of("avro"))
    assert (other.status, other.code) == (406, 40601)
    assert one.ask("GET", "/records", accept="text/html").code == 406
    # What is no JSON stops the instance, with words, until it is moved past it.
    bad = {
        "records": [{"value": base64.b64encode(b"{").decode()}, {"value": base64.b64encode(b"7").decode()}]
    }
    assert http_.ask("POST", f"/topics/{plain}", bad, {"Content-Type": of("binary")}).status == 200
    deadline = time.monotonic() + PATIENCE_S
    while (stopped := one.ask("GET", "/records")).status == 200 and time.monotonic() < deadline:
        assert stopped.body == []
    assert (stopped.status, stopped.code) == (422, 42207) and "at offset 2" in stopped.body["message"]
    one.done("POST", "/positions", {"offsets": [part(plain, offset=3)]})
    assert one.read(1)[0]["value"] == 7
    one.done("DELETE", "")
    for kind, schema, value in (
        (
            "avro",
            json.dumps(record("Order", ("id", "long"), ("note", ["null", "string"]))),
            {"id": 7, "note": {"string": "x"}},
        ),
        ("jsonschema", '{"properties": {"id": {"type": "integer"}}}', {"id": 7}),
        ("protobuf", 'syntax = "proto3"; message Order { int32 id = 1; int32 n = 2; }', {"id": 7, "n": 0}),
    ):
        schemas = topic()
        body = {"value_schema": schema, "records": [{"value": value}]}
        made = http_.ask("POST", f"/topics/{schemas}", body, {"Content-Type": of(kind)})
        assert made.status == 200 and made.body["value_schema_id"] > 0, made
        reader = Member(http_, name(), format=kind)
        reader.done("POST", "/subscription", {"topics": [schemas]})
        assert reader.read(1)[0]["value"] == value
        reader.done("DELETE", "")


def test_what_is_refused(http_: Http, topic: Topics, name: Names) -> None:
    there, group = topic(), name()
    for body, code in (
        ({"format": "xml"}, 422),
        ({"auto.offset.reset": "soon"}, 42204),
        ({"auto.commit.enable": 1}, 42204),
        ({"fetch.min.bytes": -2}, 40001),
        ({"consumer.request.timeout.ms": "1"}, 42204),
        ({"name": "x" * 201}, 42204),
        ({"name": ".."}, 42204),
        ({"colour": "red"}, 422),
        ([], 422),
    ):
        answer = http_.ask("POST", f"/consumers/{group}", body, {"Content-Type": V2})
        assert (answer.status, answer.code) == (422, code), body
    assert http_.ask("POST", f"/consumers/{group}", b"{", {"Content-Type": V2}).status == 400
    assert http_.ask("POST", f"/consumers/{group}", {}, {"Content-Type": "text/plain"}).status == 415
    one = Member(http_, group)
    for path, body, status, code in (
        ("/subscription", {}, 422, 422),
        ("/subscription", {"topics": []}, 422, 422),
        ("/subscription", {"topics": ["a b"]}, 422, 422),
        ("/subscription", {"topics": ["\ud800"]}, 400, 400),
        ("/subscription", {"topics": [there], "topic_pattern": "x"}, 409, 40903),
        ("/subscription", {"topic_pattern": "("}, 422, 422),
        ("/subscription", {"topic_pattern": "(a*)*" * 400 + "\\1"}, 422, 422),
        ("/assignments", {"partitions": [part("none")]}, 404, 40401),
        ("/assignments", {"partitions": [part(there, 9)]}, 404, 40402),
        ("/assignments", {"partitions": [part(there, -1)]}, 422, 422),
        ("/assignments", {}, 422, 422),
        ("/positions", {}, 422, 422),
        ("/positions", {"offsets": [part(there, offset=-1)]}, 422, 422),
        ("/positions", {"offsets": [part(there, offset=2**70)]}, 422, 422),
        ("/positions", {"timestamps": [part(there, timestamp="soon")]}, 422, 422),
        ("/positions/end", {"partitions": [part(there)]}, 409, 40903),
        ("/offsets", {"offsets": [part(there, offset=1, metadata=2)]}, 422, 422),
        ("/offsets", {"offsets": [part(there, offset=1, metadata="x" * 5000)]}, 422, 42204),
    ):
        answer = one.ask("POST", path, body)
        assert (answer.status, answer.code) == (status, code), (path, answer)
    for query in ("timeout=soon", "max_bytes=1e3"):
        assert one.ask("GET", f"/records?{query}").status == 422
    one.done("DELETE", "")
    assert one.ask("DELETE", "").code == 40403


def test_names_may_have_anything_in_them(
    http_: Http, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read, group = topic(), f"<b>/ü?#%2F {name()}"
    fill(broker.bootstrap, read, each=3)
    path = f"/consumers/{quote(group, safe='')}"
    given = {"name": "a/b %2F", "auto.offset.reset": "earliest"}
    made = http_.ask("POST", path, given, {"Content-Type": V2})
    assert made.body == {
        "instance_id": "a/b %2F",
        "base_uri": f"{http_.url}{path}/instances/a%2Fb%20%252F",
    }
    base = made.body["base_uri"].removeprefix(http_.url)
    assert http_.ask("POST", f"{base}/subscription", {"topics": [read]}, {"Content-Type": V2}).status == 204
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 3:
        answer = http_.ask("GET", f"{base}/records")
        assert answer.status == 200 and time.monotonic() < deadline, answer
        found += answer.body
    assert http_.ask("DELETE", base).status == 204
    root = f"/v3/clusters/{_cluster(http_)}/consumer-groups/{quote(group, safe='')}"
    told = http_.get(root)
    assert told.status == 200 and told.body["consumer_group_id"] == group, told
    summary = http_.get(f"{root}/lag-summary")
    assert summary.status == 200 and summary.body["total_lag"] == 0, summary


def test_a_reader_that_waits_does_not_hold_up_a_deletion(http_: Http, topic: Topics, name: Names) -> None:
    one = Member(http_, name(), **{"consumer.request.timeout.ms": 600_000})
    one.done("POST", "/subscription", {"topics": [topic()]})
    host, _, port = http_.url.removeprefix("http://").partition(":")
    waiting = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    waiting.request("GET", one._path + "/records")
    one.done("DELETE", "")
    answer = waiting.getresponse()
    # It was there first, or came too late.
    assert (answer.status, json.loads(answer.read())) == (200, []) or answer.status == 404
    waiting.close()


def test_a_client_that_hangs_up_gets_its_records_again(
    http_: Http, broker: TidelogBroker, topic: Topics, name: Names
) -> None:
    read = topic()
    fill(broker.bootstrap, read, each=5)
    # It waits for more than there is, with the records in hand.
    one = Member(http_, name(), **{"consumer.request.timeout.ms": 600_000, "fetch.min.bytes": 10_000_000})
    one.done("POST", "/subscription", {"topics": [read]})
    host, _, port = http_.url.removeprefix("http://").partition(":")
    waiting = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    waiting.request("GET", one._path + "/records")
    deadline = time.monotonic() + PATIENCE_S
    while not one.ask("GET", "/assignments").body["partitions"]:
        assert time.monotonic() < deadline
    waiting.close()
    assert [at["offset"] for at in one.read(5, "?timeout=500")] == [0, 1, 2, 3, 4]
    one.done("DELETE", "")


def test_instances_are_bounded_and_go_when_idle(own_broker: BrokerFactory, name: Names) -> None:
    broker = own_broker({"tidelog.rest.consumers.max": "2"})
    assert isinstance(broker, TidelogBroker)
    http_, group = Http(broker.http), name()
    made = [http_.ask("POST", f"/consumers/{group}", {}, {"Content-Type": V2}) for _ in range(3)]
    assert [one.status for one in made] == [200, 200, 429]
    settings = f"/v3/clusters/{_cluster(http_)}/broker-configs"
    idle = f"{settings}/tidelog.rest.consumer.instance.timeout.ms"
    assert http_.ask("PUT", idle, {"value": "300"}, _JSON).status == 204
    path = f"/consumers/{group}/instances/{made[0].body['instance_id']}/assignments"
    deadline = time.monotonic() + PATIENCE_S
    while (answer := http_.get(path)).status != 404:
        assert time.monotonic() < deadline, answer
        time.sleep(1)  # longer than it may be idle
    assert answer.code == 40403
    while (again := http_.ask("POST", f"/consumers/{group}", {}, {"Content-Type": V2})).status == 429:
        assert time.monotonic() < deadline, again
        time.sleep(0.2)
    assert again.status == 200
    broker.stop()


def test_closing_the_broker_commits_for_its_instances(own_broker: BrokerFactory, name: Names) -> None:
    broker = own_broker({})
    assert isinstance(broker, TidelogBroker)
    http_, group, read = Http(broker.http), name(), name()
    assert (
        http_.ask("POST", f"/v3/clusters/{_cluster(http_)}/topics", {"topic_name": read}, _JSON).status == 201
    )
    fill(broker.bootstrap, read, each=5)
    one = Member(http_, group)
    one.done("POST", "/subscription", {"topics": [read]})
    assert len(one.read(5)) == 5
    broker.stop()
    broker.start()
    http_ = Http(broker.http)
    again = Member(http_, group)
    again.done("POST", "/assignments", {"partitions": [part(read)]})
    assert again.ask("GET", "/offsets").body["offsets"][0]["offset"] == 5
    assert len(confluent_consume(broker.bootstrap, read, 5)) == 5


_JSON = {"Content-Type": "application/json"}


def _cluster(http_: Http) -> str:
    return str(http_.get("/v3/clusters").body["data"][0]["cluster_id"])
