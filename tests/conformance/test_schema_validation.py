"""Topics that take only records whose schema is registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.registry import Http, record
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import aio, errors

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")

ON = {"confluent.value.schema.validation": "true"}
STRATEGY = "confluent.value.subject.name.strategy"
STRATEGIES = "io.confluent.kafka.serializers.subject."


@pytest.fixture
def http(broker: TidelogBroker) -> Http:
    return Http(broker.http)


def framed(schema_id: int, payload: bytes = b"\x02") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def send(bootstrap: str, topic: str, *values: bytes | None, **options: Any) -> list[str | None]:
    """The name of the error of each, None for those that were taken."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **options})
    outcomes: dict[int, str | None] = {}

    def told(at: int) -> Callable[[KafkaError | None, Any], None]:
        return lambda error, _: outcomes.__setitem__(at, None if error is None else error.name())

    for at, value in enumerate(values):
        producer.produce(topic, value, key=b"key", on_delivery=told(at))
    assert producer.flush(60) == 0
    return [outcomes[at] for at in range(len(values))]


def test_only_registered_schemas_pass(
    http: Http, bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    where = topic(config=ON)
    known = http.register(f"{where}-value", record(f"A{name().replace('-', '')}", ("id", "long"))).body["id"]
    other = http.register(name(), record(f"B{name().replace('-', '')}", ("id", "long"))).body["id"]
    assert send(bootstrap, where, framed(known)) == [None]
    assert send(bootstrap, where, None) == [None], "a null has no schema"
    for bad in (framed(other), framed(2_000_000_000), b"plain text", b"\0\0", b"{}"):
        assert send(bootstrap, where, bad) == ["INVALID_RECORD"]
    assert send(bootstrap, where, framed(known), **{"compression.type": "zstd"}) == [None]


def test_a_schema_that_comes_later_is_known_at_once(
    http: Http, bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    where = topic(config=ON)
    made = record(f"C{name().replace('-', '')}", ("id", "long"))
    number = http.register(name(), made).body["id"]
    assert send(bootstrap, where, framed(number)) == ["INVALID_RECORD"]
    assert http.register(f"{where}-value", made).body["id"] == number
    assert send(bootstrap, where, framed(number)) == [None]


def test_many_records_keep_their_order_while_the_registry_is_asked(
    http: Http, bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    from tests.conformance.clients import confluent_consume

    where = topic(config=ON)
    ids = [
        http.register(
            f"{where}-value", record("D", ("id", "long"), *[(f"f{n}", "int", 0) for n in range(at)])
        ).body["id"]
        for at in range(5)
    ]
    values = [framed(ids[at % 5], str(at).encode()) for at in range(200)]
    options = {"linger.ms": 0, "batch.num.messages": 3}
    assert set(send(bootstrap, where, *values, **options)) == {None}
    assert [one.message.value for one in confluent_consume(bootstrap, where, 200)] == values


def test_strategies(http: Http, bootstrap: str, topic: Callable[..., str], name: Callable[[], str]) -> None:
    short = f"E{name().replace('-', '')}"
    by_record = topic(config={**ON, STRATEGY: f"{STRATEGIES}RecordNameStrategy"})
    by_both = topic(config={**ON, STRATEGY: f"{STRATEGIES}TopicRecordNameStrategy"})
    made = record(f"shop.{short}", ("id", "long"))
    number = http.register(f"shop.{short}", made).body["id"]
    assert send(bootstrap, by_record, framed(number)) == [None]
    assert send(bootstrap, by_both, framed(number)) == ["INVALID_RECORD"]
    http.register(f"{by_both}-shop.{short}", made)
    assert send(bootstrap, by_both, framed(number)) == [None]


def test_keys_transactions_and_the_setting_itself(
    http: Http, bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    where = topic(config={"confluent.key.schema.validation": "true"})
    assert send(bootstrap, where, b"any value") == ["INVALID_RECORD"]
    resource = ConfigResource(
        ResourceType.TOPIC,
        where,
        incremental_configs=[
            ConfigEntry(
                "confluent.key.schema.validation", "false", incremental_operation=AlterConfigOpType.SET
            ),
            ConfigEntry(
                "confluent.value.schema.validation", "true", incremental_operation=AlterConfigOpType.SET
            ),
        ],
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    number = http.register(f"{where}-value", record(f"F{name().replace('-', '')}", ("id", "long"))).body["id"]
    assert send(bootstrap, where, framed(number)) == [None]
    for value, committed in ((framed(number), True), (b"no schema", False)):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name()})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(where, value)
        if committed:
            producer.commit_transaction(30)
        else:
            with pytest.raises(Exception, match=r"INVALID_RECORD|abort|Broker failed to validate"):
                producer.commit_transaction(30)
            producer.abort_transaction(30)


async def test_the_answer_says_which_records(broker: TidelogBroker, topic: Callable[..., str]) -> None:
    async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
        with pytest.raises(errors.InvalidRecord) as refused:
            await (await producer.send(topic(config=ON), b"no schema"))
        assert "does not begin with a schema id" in str(refused.value)
