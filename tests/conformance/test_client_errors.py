"""What the client libraries make of errors and of offsets that are no longer there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest

from tests.conformance.clients import CONSUMERS, PRODUCERS, Message, confluent_produce
from tests.conformance.raw import Connection
from tests.conformance.topics import list_offset


def failure(call: Callable[[], Any]) -> Any:
    """The error that a client library raised, by its own name for it."""
    with pytest.raises(
        (confluent_kafka.KafkaException, kafka.errors.KafkaError, aiokafka.errors.KafkaError)
    ) as caught:
        call()
    error: Any = caught.value
    return error.args[0].name() if isinstance(error, confluent_kafka.KafkaException) else type(error).__name__


@pytest.mark.parametrize(
    ("client", "error"),
    [
        ("confluent", "MSG_SIZE_TOO_LARGE"),
        ("kafka-python", "MessageSizeTooLargeError"),
        ("aiokafka", "MessageSizeTooLargeError"),
    ],
)
def test_a_message_above_the_topics_limit(client: str, error: str, bootstrap: str, topic: Any) -> None:
    known = topic(config={"max.message.bytes": "1000"})
    assert failure(lambda: PRODUCERS[client](bootstrap, known, [Message(b"x" * 2000)])) == error


@pytest.mark.parametrize(
    ("client", "error"),
    [("confluent", "INVALID_RECORD"), ("kafka-python", "InvalidRecordError"), ("aiokafka", "UnknownError")],
)
def test_a_message_without_a_key_for_a_compacted_topic(
    client: str, error: str, bootstrap: str, topic: Any
) -> None:
    known = topic(config={"cleanup.policy": "compact"})
    assert failure(lambda: PRODUCERS[client](bootstrap, known, [Message(b"x")])) == error


@pytest.mark.parametrize(
    ("client", "error"),
    [
        ("confluent", "INVALID_TIMESTAMP"),
        ("kafka-python", "InvalidTimestampError"),
        ("aiokafka", "InvalidTimestampError"),
    ],
)
def test_a_timestamp_out_of_range(client: str, error: str, bootstrap: str, topic: Any) -> None:
    known = topic(config={"message.timestamp.before.max.ms": "1000"})
    assert failure(lambda: PRODUCERS[client](bootstrap, known, [Message(b"x", timestamp=1)])) == error


RESETS: dict[str, dict[str, Any]] = {
    "confluent": {"auto.offset.reset": "earliest"},
    "kafka-python": {"auto_offset_reset": "earliest"},
    "aiokafka": {"auto_offset_reset": "earliest"},
}


@pytest.mark.parametrize("client", CONSUMERS)
def test_a_consumer_before_the_log_start_goes_to_the_beginning(
    client: str, bootstrap: str, connection: Connection, topic: Any
) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"%d" % i) for i in range(10)])
    wanted = [{"name": known, "partitions": [{"partition_index": 0, "offset": 6}]}]
    connection.call("delete_records", 2, topics=wanted, timeout=5000)
    found = CONSUMERS[client](bootstrap, known, 4, start=2, **RESETS[client])
    assert [(r.offset, r.message.value) for r in found] == [(i, b"%d" % i) for i in range(6, 10)]


@pytest.mark.parametrize("client", CONSUMERS)
def test_a_consumer_past_the_end_goes_to_the_beginning(client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"%d" % i) for i in range(3)])
    found = CONSUMERS[client](bootstrap, known, 3, start=1000, **RESETS[client])
    assert [r.offset for r in found] == [0, 1, 2]


def test_a_consumer_that_wants_an_error_gets_it(bootstrap: str, topic: Any) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"x")])
    options = {"auto.offset.reset": "error"}
    found = failure(lambda: CONSUMERS["confluent"](bootstrap, known, 1, start=1000, **options))
    assert found == "_AUTO_OFFSET_RESET"


@pytest.mark.parametrize("client", PRODUCERS)
def test_refused_messages_leave_no_trace(
    client: str, bootstrap: str, connection: Connection, topic: Any
) -> None:
    known = topic(config={"max.message.bytes": "1000"})
    failure(lambda: PRODUCERS[client](bootstrap, known, [Message(b"x" * 2000)]))
    assert list_offset(connection, known, -1).offset == 0
    assert PRODUCERS[client](bootstrap, known, [Message(b"fine")])[0].offset == 0
