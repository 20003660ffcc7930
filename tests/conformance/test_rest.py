"""The REST proxy over plain HTTP: versions 3 and 2, and requests that it refuses."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.consuming import fill
from tests.conformance.registry import Http
from tests.conformance.rest import JSON, Names, Topics, packed, post
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.aio import Admin, TopicPartition

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no REST proxy")


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
