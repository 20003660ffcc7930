"""The OpenAPI document against the broker that serves it: requests made from it by schemathesis, right ones and wrong ones.
None may make the broker fail, and every answer has a status, a type and a shape that the document names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.consuming import fill
from tests.conformance.registry import Http
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.gateways.openapi.registry import OPERATIONS
from tidelog.gateways.registry.routes import _WITH_METADATA, ENDPOINTS

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no REST proxy")

TOPIC, GROUP, SUBJECT = "fuzzed", "fuzzers", "fuzzed-value"
EXAMPLES = 5
EXAMPLES_DEEP = 100
# They would leave less to ask for: so they come last.
LAST = ("/mode", "/config")
JSON = {"Content-Type": "application/json"}


def test_the_document_has_every_path_of_the_registry() -> None:
    described = {(method, re.sub(r"{\w+}", "{}", path)[1:]) for method, path in OPERATIONS}
    assert described == {*ENDPOINTS, ("GET", _WITH_METADATA)}


class World:
    """A broker with one of everything, so that paths lead somewhere."""

    def __init__(self, broker: TidelogBroker) -> None:
        self.http = http_ = Http(broker.http)
        cluster = http_.get("/v3/clusters").body["data"][0]["cluster_id"]
        self.root = f"/v3/clusters/{cluster}"
        self.names: dict[str, Any] = {
            "cluster": cluster,
            "topic": TOPIC,
            "partition": 0,
            "broker": http_.get(f"{self.root}/brokers").body["data"][0]["broker_id"],
            "group": GROUP,
            "name": "retention.ms",
            "subject": SUBJECT,
            "version": 1,
            "context": ".fuzzed",
        }
        self.restore()
        fill(broker.bootstrap, TOPIC, each=5)

    def restore(self) -> None:
        """What a request may have deleted."""
        http_ = self.http
        http_.ask("POST", f"{self.root}/topics", {"topic_name": TOPIC, "partitions_count": 1}, JSON)
        found = http_.register(SUBJECT, '"string"')
        if found.status == 200:
            self.names |= {"id": found.body["id"], "guid": found.body["guid"]}
        made = http_.ask(
            "POST", f"/consumers/{GROUP}", {"name": "reader", "consumer.request.timeout.ms": 0}, JSON
        )
        self.names["instance"] = "reader"
        instance = f"/consumers/{GROUP}/instances/reader"
        if made.status == 200:
            http_.ask("POST", f"{instance}/subscription", {"topics": [TOPIC]}, JSON)
            http_.ask("GET", f"{instance}/records", None, {"Accept": "*/*"})
            http_.ask(
                "POST",
                f"{instance}/offsets",
                {"offsets": [{"topic": TOPIC, "partition": 0, "offset": 1}]},
                JSON,
            )
        members = http_.get(f"{self.root}/consumer-groups/{GROUP}/consumers").body.get("data") or [{}]
        self.names["consumer"] = members[0].get("consumer_id", "nobody")


@pytest.fixture
def world(own_broker: BrokerFactory) -> Iterator[World]:
    broker = own_broker(
        {"tidelog.rest.consumers.max": "10000", "tidelog.rest.consumer.instance.timeout.ms": "3000"}
    )
    assert isinstance(broker, TidelogBroker)
    yield World(broker)
    assert broker.alive(), broker.log_tail()
    logged = broker.log_tail()
    assert "failed" not in logged and "Traceback" not in logged, logged
    broker.stop()


# What is there, in bodies.
THERE: dict[str, Any] = {
    "topic": TOPIC,
    "topics": [TOPIC],
    "topic_pattern": "fuzz.*",
    "partition": 0,
    "partition_id": 0,
    "type": "STRING",
    "partitions_count": 2,
    "replication_factor": 1,
    "schema": '"string"',
    "value_schema": '"string"',
    "key_schema": '"string"',
    "schemaType": "AVRO",
    "subject": SUBJECT,
    "version": 1,
    "schema_version": 1,
}


def _grounded(body: Any) -> Any:
    if isinstance(body, list):
        return [_grounded(one) for one in body]
    if isinstance(body, dict):
        return {name: THERE[name] if name in THERE and one else _grounded(one) for name, one in body.items()}
    return body


def _cheap(body: Any) -> None:
    """Ten thousand partitions are allowed, and take their time."""
    if (
        isinstance(body, dict)
        and isinstance(body.get("partitions_count"), int)
        and body["partitions_count"] <= 10_000
    ):
        body["partitions_count"] = min(body["partitions_count"], 5)


def _fuzz(world: World, examples: int, deterministic: bool) -> None:
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    document = world.http.get("/openapi.json").body
    del document["paths"]["/topics/{topic}/events"]  # it does not end
    schema = schemathesis.openapi.from_dict(document)
    operations = [one.ok() for one in schema.get_all_operations()]
    operations.sort(key=lambda one: (one.method == "delete", one.path.startswith(LAST)))
    session, failures = requests.Session(), []
    for operation in operations:
        modes = [schemathesis.GenerationMode.POSITIVE]
        if operation.body or operation.query:
            modes.append(schemathesis.GenerationMode.NEGATIVE)
        for mode in modes:

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=deterministic,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode), known=st.integers(0, 3))
            def ask(case: Any, known: int) -> None:
                if known:
                    for name in case.path_parameters or {}:
                        case.path_parameters[name] = world.names.get(name, case.path_parameters[name])
                if known > 1:
                    case.body = _grounded(case.body)
                _cheap(case.body)
                case.call_and_validate(
                    base_url=world.http.url,
                    session=session,
                    checks=wanted,
                    headers={"Accept": "*/*"},
                    timeout=60,
                )

            try:
                ask()
            except BaseExceptionGroup as problem:
                failures.append(str(problem))
            if operation.method == "delete":
                world.restore()
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(900)
def test_requests_made_from_the_document(world: World) -> None:
    _fuzz(world, EXAMPLES, deterministic=True)


@pytest.mark.deep
def test_many_requests_made_from_the_document(world: World) -> None:
    _fuzz(world, EXAMPLES_DEEP, deterministic=False)
