"""Ends the transactions that are open where a restored log was cut.

At the cut of a backup or a fork, `__transaction_state` is of the same moment, and the new cluster's coordinators do this.
At an earlier point, or without that topic, nobody may know of a transaction any more, and its records would hold up readers
for ever."""

from __future__ import annotations

from tidelog._speed.log.batch import walk
from tidelog.backup.data_directory import NewDataDirectory
from tidelog.config import TopicConfig
from tidelog.errors import TidelogError
from tidelog.record.builder import EndMarker, Marker, build_marker
from tidelog.record.reader import read_batches
from tidelog.transactions.state_machine import KINDS, TOPIC, TransactionStateMachine
from tidelog.transactions.transaction import TransactionStatus
from tidelog.types import TopicPartition

PENDING = (TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


class TransactionLog:
    """What `__transaction_state` says at the point."""

    def __init__(self) -> None:
        self._machine = TransactionStateMachine()

    def learn(self, data: bytes) -> None:
        """Batches of one partition, in order."""
        for batch in read_batches(data, check_crc=False):
            for record in batch.records():
                try:
                    entry = KINDS.decode(record.key, record.value)
                except TidelogError:
                    continue  # a newer broker's
                if entry is not None:
                    self._machine.replay(entry, -1)

    def is_pending(self, producer_id: int, name: TopicPartition) -> bool:
        """The coordinator will end the transaction in this partition."""
        return self._status(producer_id, name) in PENDING

    def is_committed(self, producer_id: int, name: TopicPartition) -> bool:
        return self._status(producer_id, name) is TransactionStatus.PREPARE_COMMIT

    def _status(self, producer_id: int, name: TopicPartition) -> TransactionStatus | None:
        for transaction in self._machine:
            if transaction.producer_id == producer_id and name in transaction.partitions:
                return transaction.state
        return None


async def end_open_transactions(
    directory: NewDataDirectory,
    name: TopicPartition,
    config: TopicConfig,
    known: TransactionLog,
    *,
    original: TopicPartition,
    coordinated: bool,
    time_ms: int,
) -> int:
    """How many were ended, each with a marker at the end of the log.  `coordinated`: the new cluster has the topic of
    transactions, and ends what it knows.  `original`: the name that it is known by."""
    log = directory.open_log(name, config)
    ended = 0
    for producer in list(log.producers):
        if producer.transaction_start < 0 or (coordinated and known.is_pending(producer.id, original)):
            continue
        commit = known.is_committed(producer.id, original)
        offset, epoch = log.next, max(log.epochs.latest, 0)
        data = build_marker(
            EndMarker(Marker.COMMIT if commit else Marker.ABORT, 0),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            timestamp=time_ms,
            base_offset=offset,
            leader_epoch=epoch,
        )
        (header,) = walk(data)
        pending = log.append(memoryview(data), offset, offset, time_ms, offset, epoch)
        log.appender.learned(header, lambda data=data: data)  # type: ignore[misc]
        if pending is not None:
            await pending
        ended += 1
    directory.close_log(name, log)
    return ended


def is_transaction_topic(name: TopicPartition) -> bool:
    return name.topic == TOPIC
