"""The console with 1,000 topics: what a page costs the broker, which serves clients on the same loop."""

from __future__ import annotations

import json
import os
import urllib.request

from starlette.routing import Route

from tests.faults.conftest import BrokerFactory
from tests.unit.gateways.around import surroundings
from tidelog import Admin, NewTopic, Producer, TopicPartition
from tidelog.gateways.console.app import routes

TOPICS, GROUPS = 1_000, 100
CPU_S_MAX = 1.0
TICKS = os.sysconf("SC_CLK_TCK")


TOPIC = "/console/topics/t0000"
PATHS = [
    "/",
    "/console",
    "/console/live",
    "/console/tenants",
    "/console/find?q=t09",
    "/console/topics",
    "/console/topics?q=t09&sort=size&order=down",
    "/console/topics?page=20",
    TOPIC,
    f"{TOPIC}/live",
    f"{TOPIC}/messages",
    f"{TOPIC}/messages/0/0",
    f"{TOPIC}/tail",
    f"{TOPIC}/settings",
    f"{TOPIC}/produce",
    "/console/create-topic",
    "/console/groups",
    "/console/groups?sort=lag&order=down",
    "/console/groups/show?name=g000",
    "/console/groups/live?name=g000",
    "/console/groups/settings?name=g000",
    "/console/groups/reset?name=g000&to=latest",
    "/console/shares",
    "/console/shares/show?name=workers",
    "/console/shares/live?name=workers",
    "/console/transactions",
    "/console/transactions/show?name=tx",
    "/console/schemas",
    "/console/schemas/show?name=t0000-value",
    "/console/register-schema",
    "/console/login",
    "/console/brokers",
    "/console/brokers/live",
    "/console/brokers/1",
    "/console/alerts",
    "/console/clients",
    "/console/clients/show?name=tidelog",
    "/console/alerts/live",
    "/console/plan",
    "/metrics",
]
# Files, what has no end, what brokers ask each other, log-ins of an identity provider, and what is not there.
OTHERS = {
    "/console/static/{name}",
    "/console/topics/{topic}/tail/events",
    "/console/login/kerberos",
    "/console/login/oidc",
    "/console/login/oidc/callback",
    "/console/{rest:path}",
}


def cpu_s(pid: int) -> float:
    """Spent by a process so far; what other processes do at the time does not count."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def get(http: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{http}{path}", timeout=60) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_no_page_is_left_out() -> None:
    for route in routes(surroundings()):
        assert isinstance(route, Route)
        if "GET" in (route.methods or ()) and route.path not in OTHERS and "/peer/" not in route.path:
            assert [one for one in PATHS if route.path_regex.match(one.partition("?")[0])], route.path


def test_every_page_with_a_thousand_topics_takes_less_than_a_second_of_the_broker(
    new_broker: BrokerFactory,
) -> None:
    broker = new_broker({"offsets.topic.num.partitions": "1"})
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap, request_timeout_ms=120_000) as admin:
        admin.create_topics([NewTopic(f"t{number:04}", 1) for number in range(TOPICS)])
        for number in range(GROUPS):
            admin.alter_group_offsets(f"g{number:03}", {TopicPartition(f"t{number:04}", 0): 0})
        admin.alter_share_group_offsets("workers", {TopicPartition("t0000", 0): 0})
    with (
        Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer,
        producer.transaction(),
    ):
        producer.send("t0000", b"value", key=b"key")
    schema = json.dumps({"schema": '"string"'}).encode()
    kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    register = urllib.request.Request(f"http://{broker.http}/subjects/t0000-value/versions", schema, kind)
    urllib.request.urlopen(register, timeout=60).close()
    get(broker.http, "/")  # loads all there is to load, and looks at the cluster
    slow = {}
    for path in PATHS:
        before = cpu_s(broker.pid)
        get(broker.http, path)
        took = cpu_s(broker.pid) - before
        if took >= CPU_S_MAX:
            slow[path] = took
    assert slow == {}
