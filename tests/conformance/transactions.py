"""A transactional producer as single requests, so that a test can send any of them wrong, twice, or too early."""

from __future__ import annotations

from typing import Any

from tests.conformance.batches import CONTROL, TRANSACTIONAL, Batch, batch, read
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import fetch, list_offset

RETRIED = {
    "concurrent_transactions",
    "coordinator_load_in_progress",
    "coordinator_not_available",
    "not_coordinator",
}
READ_COMMITTED = 1


class RawProducer:
    """`new`: the protocol from Kafka 4 on, where batches add their partitions and every end gives a new epoch."""

    def __init__(self, connection: Connection, transactional_id: str, new: bool = True) -> None:
        self.connection, self.transactional_id, self.new = connection, transactional_id, new
        self.id, self.epoch, self.sequences = -1, -1, dict[tuple[str, int], int]()

    # Each request once

    def initialize_once(
        self, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1), version: int = 4
    ) -> Any:
        return self.connection.call(
            "init_producer_id",
            version,
            transactional_id=self.transactional_id,
            transaction_timeout=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )

    def add_once(self, topic: str, *partitions: int, version: int = 3, **other: Any) -> list[str]:
        """The name of each partition's error."""
        answer = self.connection.call(
            "add_partitions_to_txn",
            version,
            **self._named("v3_and_below_", **other),
            v3_and_below_topics=[{"name": topic, "partitions": list(partitions)}],
        )
        (row,) = answer.results_by_topic_v3_and_below
        return [part.partition_error_code.name for part in row.results_by_partition]

    def end_once(self, commit: bool, version: int | None = None, **other: Any) -> Any:
        version = (5 if self.new else 3) if version is None else version
        return self.connection.call("end_txn", version, committed=commit, **self._named("", **other))

    def send_once(
        self, topic: str, data: bytes, partition: int = 0, version: int | None = None, **other: Any
    ) -> Any:
        version = (12 if self.new else 11) if version is None else version
        parts = [{"name": topic, "partition_data": [{"index": partition, "records": data}]}]
        answer = self.connection.call(
            "produce",
            version,
            **{
                "transactional_id": self.transactional_id,
                "acks": -1,
                "timeout": 10_000,
                "topic_data": parts,
                **other,
            },
        )
        return answer.responses[0].partition_responses[0]

    def batch(self, topic: str, *values: bytes, partition: int = 0, **header: Any) -> bytes:
        fields = {
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequences.get((topic, partition), 0),
            "attributes": TRANSACTIONAL,
        }
        return batch(values, **(fields | header))

    def _named(self, prefix: str, **other: Any) -> dict[str, Any]:
        fields = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }
        return {prefix + name: value for name, value in (fields | other).items()}

    # As a client does it

    def initialize(self, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1)) -> RawProducer:
        find_coordinator(self.connection, self.transactional_id)
        answer = until_settled(lambda: self.initialize_once(timeout_ms, expected))
        assert answer.error_code == 0, answer
        self.id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
        self.sequences.clear()
        return self

    def send(self, topic: str, *values: bytes, partition: int = 0) -> int:
        if not self.new:
            assert until_settled(lambda: self.add_once(topic, partition)) == ["none"]
        data = self.batch(topic, *values, partition=partition)
        answer = until_settled(lambda: self.send_once(topic, data, partition))
        assert answer.error_code == 0, answer
        key = topic, partition
        self.sequences[key] = self.sequences.get(key, 0) + len(values)
        return int(answer.base_offset)

    def end(self, commit: bool) -> None:
        answer = until_settled(lambda: self.end_once(commit))
        assert answer.error_code == 0, answer
        if self.new:
            self.id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
            self.sequences.clear()

    def settle(self) -> None:
        """Returns when the markers of the last end are written."""
        wait_until(lambda: self.state() not in ("PrepareCommit", "PrepareAbort"), 20, "the markers")

    def state(self) -> str:
        answer = self.connection.call("list_transactions", 0, state_filters=[], producer_id_filters=[])
        known = {row.transactional_id: row.transaction_state for row in answer.transaction_states}
        return str(known[self.transactional_id])

    def describe(self) -> Any:
        answer = self.connection.call("describe_transactions", 0, transactional_ids=[self.transactional_id])
        return answer.transaction_states[0]


def until_settled(ask: Any) -> Any:
    """The first answer that does not say `later`."""
    answers: list[Any] = []

    def told() -> bool:
        answers.append(ask())
        last = answers[-1]
        names = last if isinstance(last, list) else [last.error_code.name]
        return not RETRIED.intersection(names)

    wait_until(told, 30, "an answer that is not to be asked for again")
    return answers[-1]


def find_coordinator(connection: Connection, transactional_id: str) -> None:
    """Makes the topic of transactions, if it has to be."""

    def found() -> bool:
        answer = connection.call("find_coordinator", 4, key_type=1, coordinator_keys=[transactional_id])
        return bool(answer.coordinators[0].error_code == 0)

    wait_until(found, 30, "a coordinator")


def fetch_committed(connection: Connection, topic: str, offset: int = 0, **fields: Any) -> Any:
    return fetch(connection, topic, offset, isolation_level=READ_COMMITTED, **fields)


def committed_values(connection: Connection, topic: str) -> list[bytes | None]:
    """Everything that a reader of committed transactions is to see, by one fetch."""
    answer = fetch_committed(connection, topic)
    assert answer.error_code == 0, answer
    waiting = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
    aborted: set[int] = set()
    found: list[bytes | None] = []
    for each in read(answer.records):
        while waiting and waiting[0][0] <= each.last_offset:
            aborted.add(waiting.pop(0)[1])
        if each.attributes & CONTROL:
            if marker(each) == 0:
                aborted.discard(each.producer_id)
        elif not (each.attributes & TRANSACTIONAL and each.producer_id in aborted):
            found += [record.value for _, record in each.records()]
    return found


def marker(control: Batch) -> int:
    """0 for an abort, 1 for a commit."""
    ((_, record),) = control.records()
    assert record.key is not None
    return int.from_bytes(record.key[2:4], "big")


def last_stable(connection: Connection, topic: str, partition: int = 0) -> int:
    return int(
        fetch(
            connection, topic, list_offset(connection, topic, -2, partition).offset, partition
        ).last_stable_offset
    )
