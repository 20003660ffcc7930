"""What clients refuse before anything is sent, and how they say it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.client.consumer.consumers import ORDERS, consumer_on, drain, fill
from tests.unit.client.stage import Stage, staged
from tidelog import ShareConsumer as BlockingShareConsumer
from tidelog import errors
from tidelog.aio import Admin, Consumer, NewTopic, Producer, ShareConsumer
from tidelog.client.admin.configs import setting_text
from tidelog.client.admin.topics import create_topics
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.client.errors import ClientClosed
from tidelog.client.groups.metadata import OffsetAndMetadata, with_metadata
from tidelog.client.security.security import Security
from tidelog.client.topic_names import check_topic, names_of
from tidelog.schema.serializer import Json, SerializationError

TOO_MUCH = 1 << 40


@pytest.mark.parametrize(
    ("options", "problem", "said"),
    [
        ({"linger_ms": "5"}, TypeError, r"linger_ms must be a whole number, not '5' \(str\)"),
        ({"linger_ms": 1.5}, TypeError, "linger_ms must be a whole number"),
        ({"retries": None}, TypeError, "retries must be a whole number"),
        ({"batch_size": True}, TypeError, "batch_size must be a whole number"),
        ({"compression_type": 5}, TypeError, "compression_type must be text"),
        ({"enable_idempotence": "yes"}, TypeError, "enable_idempotence must be True or False"),
        ({"client_id": 5}, TypeError, "client_id must be text"),
        ({"security": "tls"}, TypeError, r"security must be a Security\(\.\.\.\), not 'tls'"),
        ({"max_request_size": TOO_MUCH}, ValueError, "max_request_size cannot be .* at most 2147483647"),
        ({"bootstrap_servers": None}, ValueError, "None is no broker address"),
        ({"bootstrap_servers": b"host:1"}, ValueError, "is no broker address: write HOST:PORT as text"),
    ],
)
def test_producers_name_what_they_refuse(
    options: dict[str, Any], problem: type[Exception], said: str
) -> None:
    with pytest.raises(problem, match=said):
        Producer(**options)


@pytest.mark.parametrize(
    ("options", "problem", "said"),
    [
        ({"fetch_max_bytes": TOO_MUCH}, ValueError, "fetch_max_bytes cannot be"),
        ({"fetch_min_bytes": TOO_MUCH}, ValueError, "fetch_min_bytes cannot be"),
        ({"fetch_max_wait_ms": TOO_MUCH}, ValueError, "fetch_max_wait_ms cannot be"),
        ({"client_rack": 5}, TypeError, "client_rack must be text"),
        ({"max_poll_records": "5"}, TypeError, "max_poll_records must be a whole number"),
        ({"auto_offset_reset": True}, ValueError, "auto_offset_reset cannot be True"),
        ({"auto_offset_reset": 1 << 64}, ValueError, "auto_offset_reset cannot be"),
        ({"group_id": 5}, TypeError, "group_id must be text"),
        ({"group_id": "g", "group_instance_id": ""}, ValueError, "group_instance_id cannot be empty"),
        ({"group_id": "g", "session_timeout_ms": TOO_MUCH}, ValueError, "session_timeout_ms cannot be"),
        ({"enable_auto_commit": "no"}, TypeError, "enable_auto_commit must be True or False"),
    ],
)
def test_consumers_name_what_they_refuse(
    options: dict[str, Any], problem: type[Exception], said: str
) -> None:
    with pytest.raises(problem, match=said):
        Consumer(**options)


@pytest.mark.parametrize("name", ["bad topic!", "ü", ".", "..", "", "a" * 250])
async def test_a_topic_that_can_never_be_is_refused_by_all_who_read(name: str) -> None:
    with pytest.raises(errors.InvalidTopicException):
        Consumer(name)
    with pytest.raises(errors.InvalidTopicException):
        Consumer().subscribe([name])
    with pytest.raises(errors.InvalidTopicException):
        ShareConsumer(name, group_id="g")
    with pytest.raises(errors.InvalidTopicException):
        ShareConsumer(group_id="g").subscribe(name)
    check_topic("a" * 249)
    check_topic("__consumer_offsets")


def test_a_share_consumer_says_whose_setting_the_start_is() -> None:
    said = "tidelog configs set group jobs share.auto.offset.reset=earliest"
    for kind in (ShareConsumer, BlockingShareConsumer):
        options: dict[str, Any] = {"group_id": "jobs", "auto_offset_reset": "earliest"}
        with pytest.raises(TypeError, match=f"auto_offset_reset .* setting of the group: {said}"):
            kind("orders", **options)


def test_one_name_is_one_and_not_its_letters() -> None:
    assert names_of("ab") == ["ab"] and names_of(("a", "b")) == ["a", "b"] and names_of(()) == []


@staged
async def test_a_place_that_no_log_has_is_refused_and_the_reader_goes_on(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"a", b"b")
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        for offset, problem in (
            (1 << 63, ValueError),
            (-1, ValueError),
            (1.5, TypeError),
            ("1", TypeError),
        ):
            with pytest.raises(problem, match="offset"):
                consumer.seek(ORDERS, offset)  # type: ignore[arg-type]
        for time, problem in ((-1, ValueError), (1.5, TypeError)):
            with pytest.raises(problem, match="timestamp"):
                consumer.seek_to_time(time)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="max_records cannot be -1"):
            await consumer.poll(max_records=-1)
        assert len(await drain(consumer, 2)) == 2


@staged
async def test_a_fetch_that_cannot_be_sent_does_not_keep_others_from_being_sent(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"a")
    broken = [True]
    before = Fetcher._partition_bytes.fget  # type: ignore[attr-defined]
    # More than the field on the wire holds.
    size = property(lambda self: 1 << 40 if broken and broken.pop() else before(self))
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await consumer.position(ORDERS)
        monkeypatch.setattr(Fetcher, "_low_bytes", 1 << 20)
        monkeypatch.setattr(Fetcher, "_partition_bytes", size)
        with pytest.raises(errors.UnknownServerError):
            while True:
                await consumer.poll(1_000)
        assert len(await drain(consumer, 1)) == 1


@pytest.mark.parametrize("offset", [-1, -5, 1 << 63, 1.5, None])
def test_offsets_that_cannot_be_committed_are_refused(offset: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="the offset of orders-0"):
        with_metadata({ORDERS: offset})
    with pytest.raises((ValueError, TypeError), match="the offset of orders-0"):
        with_metadata({ORDERS: OffsetAndMetadata(offset)})
    assert with_metadata({ORDERS: 0}) == {ORDERS: OffsetAndMetadata(0)}


@staged
async def test_a_record_names_the_part_of_it_that_is_refused(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with Producer(bootstrap_servers="broker1:9092", environment=stage.environment) as producer:
        await (await producer.send("orders", b"x", b"k", {"a": b"1"}, 0, 0))
        begun = stage.clock.monotonic_ms()
        refused: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"topic": None}, TypeError, "a topic's name is text, not NoneType"),
            ({"topic": b"orders"}, TypeError, "a topic's name is text, not bytes"),
            ({"headers": {"a": "s"}}, TypeError, "header 'a' must be bytes or None, not str"),
            ({"headers": [("a",)]}, TypeError, "headers are pairs of a name and bytes"),
            ({"headers": {1: b"x"}}, TypeError, "the name of a header must be text, not 1"),
            ({"timestamp": 1.5}, TypeError, "timestamp must be a whole number of milliseconds"),
            ({"timestamp": -1}, ValueError, "timestamp cannot be -1"),
            ({"partition": "0"}, TypeError, "partition must be a whole number, not '0'"),
        ]
        for parts, problem, said in refused:
            with pytest.raises(problem, match=said):
                await producer.send(**{"topic": "orders", "value": b"x", **parts})
        assert stage.clock.monotonic_ms() - begun < 1_000


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
@staged
async def test_what_is_closed_does_not_start_again(stage: Stage, client: Any) -> None:
    stage.broker()
    one = client(bootstrap_servers="broker1:9092", environment=stage.environment)
    await one.close()
    with pytest.raises(ClientClosed):
        await one.start()
    async with client(bootstrap_servers="broker1:9092", environment=stage.environment) as two:
        pass
    with pytest.raises(ClientClosed):
        await two.start()


@pytest.mark.parametrize("value", [math.nan, {"a": [math.inf]}, -math.inf])
def test_what_json_does_not_have_is_not_written(value: Any) -> None:
    with pytest.raises(SerializationError, match="cannot be JSON"):
        Json().serialize("orders", value)


def test_settings_may_be_numbers() -> None:
    given: list[Any] = ["7", 7, True, None, 0.5]
    assert [setting_text("one", value) for value in given] == ["7", "7", "true", None, "0.5"]
    with pytest.raises(TypeError, match="setting 'one' must be text or a number"):
        setting_text("one", [])


@staged
async def test_topics_are_made_from_descriptions(stage: Stage) -> None:
    with pytest.raises(TypeError, match=r"NewTopic\(\.\.\.\), not 'o'"):
        await create_topics(None, list("orders"), validate_only=False, timeout_ms=1)  # type: ignore[arg-type]
    assert NewTopic("orders", configs={"retention.ms": 5}).configs == {"retention.ms": 5}


@pytest.mark.parametrize("option", ["ca", "certificate"])
def test_a_file_that_is_not_there_is_named(option: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"{option} names no file: .*nowhere\.pem"):
        Security(**{option: "nowhere.pem"}).ssl_context()  # type: ignore[arg-type]


@staged
async def test_arrow_and_serializers_do_not_go_together(stage: Stage) -> None:
    stage.broker()
    options: dict[str, Any] = {
        "bootstrap_servers": "broker1:9092",
        "environment": stage.environment,
    }
    async with Producer(**options, value_serializer=Json()) as producer:
        with pytest.raises(ValueError, match="without serializers"):
            await producer.send_batch("orders", {})  # type: ignore[arg-type]
    async with Producer(**options) as producer:
        with pytest.raises(TypeError, match="takes an Arrow table or record batch, not dict"):
            await producer.send_batch("orders", {})  # type: ignore[arg-type]
    async with Consumer(**options, value_deserializer=Json()) as consumer:
        with pytest.raises(ValueError, match="without deserializers"):
            await consumer.poll_arrow()


@staged
async def test_a_producer_that_is_dropped_says_what_that_has_cost(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    producer = Producer(bootstrap_servers="broker1:9092", environment=stage.environment, linger_ms=1_000_000)
    await producer.start()
    await producer.send("orders", b"x")
    with pytest.warns(ResourceWarning, match="1 of its records were not delivered"):
        producer.__del__()
    await producer.close()
    producer.__del__()
