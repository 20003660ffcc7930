"""Short ways to create, write and read topics with raw requests, for tests whose subject is something else."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection

CREATE, METADATA, PRODUCE, FETCH = 7, 12, 11, 12  # versions that name topics, not ids


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Returns when the partitions can be written."""
    configs = [{"name": key, "value": value} for key, value in (config or {}).items()]
    wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
    with Connection(bootstrap) as connection:
        answer = connection.call("create_topics", CREATE, topics=[wanted], timeout=10_000)
        assert answer.topics[0].error_code == 0, answer
        await_leaders(connection, topic, partitions)


def await_leaders(connection: Connection, topic: str, partitions: int = 1) -> None:
    """Kafka names a leader before that leader has opened its log; asking for the log's end settles both."""

    def led() -> bool:
        return all(list_offset(connection, topic, -1, index).error_code == 0 for index in range(partitions))

    wait_until(led, 20, f"{topic} has leaders")


def describe(connection: Connection, topic: str) -> Any:
    """The topic in a Metadata answer."""
    answer = connection.call("metadata", METADATA, topics=[{"name": topic}], allow_auto_topic_creation=False)
    return answer.topics[0]


def produce(
    connection: Connection,
    topic: str,
    records: bytes | None,
    partition: int = 0,
    acks: int = -1,
    **fields: Any,
) -> Any:
    """The partition's part of the Produce answer."""
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    answer = connection.call("produce", PRODUCE, acks=acks, timeout=10_000, topic_data=data, **fields)
    return answer.responses[0].partition_responses[0]


def append(connection: Connection, topic: str, records: bytes, partition: int = 0) -> int:
    """The base offset of `records`, which must be taken."""
    answer = produce(connection, topic, records, partition)
    assert answer.error_code == 0, answer
    return int(answer.base_offset)


def fetch(
    connection: Connection, topic: str, offset: int, partition: int = 0, version: int = FETCH, **fields: Any
) -> Any:
    """The partition's part of a Fetch answer, without a session."""
    answer = connection.call("fetch", version, **fetch_fields(topic, offset, partition, **fields))
    assert answer.responses, answer
    return answer.responses[0].partitions[0]


def fetch_fields(topic: str, offset: int, partition: int = 0, **fields: Any) -> dict[str, Any]:
    part = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "log_start_offset": -1,
    }
    part |= {key: fields.pop(key) for key in list(fields) if key in part or key == "current_leader_epoch"}
    whole = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 24, "session_epoch": -1}
    return whole | {"topics": [{"topic": topic, "partitions": [part]}]} | fields


def read_all(
    connection: Connection, topic: str, partition: int = 0, start: int = 0
) -> list[tuple[int, batches.Record]]:
    """Every record from `start` to the end, by as many fetches as it takes."""
    found: list[tuple[int, batches.Record]] = []
    while True:
        answer = fetch(connection, topic, start, partition)
        assert answer.error_code == 0, answer
        whole = batches.read(answer.records)
        assert all(b.crc_ok for b in whole)
        found += [(o, r) for b in whole for o, r in b.records() if o >= start]
        if not whole or whole[-1].last_offset + 1 >= answer.high_watermark:
            return found
        start = whole[-1].last_offset + 1


def values(connection: Connection, topic: str, partition: int = 0, start: int = 0) -> list[bytes | None]:
    return [record.value for _, record in read_all(connection, topic, partition, start)]


def list_offset(
    connection: Connection, topic: str, timestamp: int, partition: int = 0, version: int = 11
) -> Any:
    """The partition's part of a ListOffsets answer."""
    part = {"partition_index": partition, "timestamp": timestamp}
    answer = connection.call(
        "list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": [part]}], timeout=10_000
    )
    return answer.topics[0].partitions[0]


def new_producer_id(connection: Connection) -> tuple[int, int]:
    """(producer id, epoch) for an idempotent producer."""
    got: list[Any] = []

    def given() -> bool:
        got.append(
            connection.call(
                "init_producer_id", 4, producer_id=-1, producer_epoch=-1, transaction_timeout=60_000
            )
        )
        return bool(got[-1].error_code == 0)

    wait_until(given, 30, "a producer id")
    return int(got[-1].producer_id), int(got[-1].producer_epoch)
