"""The state of one partition of `__transaction_state`: the latest record of every transactional id.

The records are Kafka's.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.coordination.records import CoordinatorRecord, RecordType, RecordTypes
from tidelog.transactions.transaction import Transaction, TransactionStatus
from tidelog.types import TopicPartition
from tidelog.wire.messages.transaction_log_record import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

TOPIC = "__transaction_state"
STATES = frozenset(TransactionStatus)
KINDS = RecordTypes(RecordType(TransactionLogKey, TransactionLogValue, 1))


class TransactionStateMachine:
    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction] = {}

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def replay(self, entry: CoordinatorRecord, producer_id: int) -> None:
        transactional_id = entry.key.transactional_id
        if entry.value is None:
            self._by_id.pop(transactional_id, None)
        elif entry.value.transaction_status in STATES:  # a newer broker may write other states
            self._by_id[transactional_id] = read(transactional_id, entry.value)

    def ended(self, producer_id: int, committed: bool) -> None:
        """This topic has no transactions."""

    def appended(self, transaction: Transaction) -> None:
        """The transaction's record was replayed: sets the fields that no record holds."""
        self._by_id[transaction.id] = transaction


def entry(transaction: Transaction) -> CoordinatorRecord:
    partitions = None
    if transaction.state is not TransactionStatus.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )
    return CoordinatorRecord(TransactionLogKey(transactional_id=transaction.id), value)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def read(transactional_id: str, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        TransactionStatus(value.transaction_status),
        value.previous_producer_id,
        value.next_producer_id,
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.client_transaction_version,
    )


def by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        grouped.setdefault(topic, []).append(index)
    return grouped
