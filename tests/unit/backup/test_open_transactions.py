"""What the topic of transactions says of those that are open at a point."""

from __future__ import annotations

import pytest

from tidelog.backup.open_transactions import TransactionLog
from tidelog.record.builder import BatchBuilder
from tidelog.transactions.state_machine import KINDS, entry, tombstone
from tidelog.transactions.transaction import Transaction, TransactionStatus
from tidelog.types import TopicPartition

HERE, ELSEWHERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def known(*states: TransactionStatus | None) -> TransactionLog:
    """The log of one transactional id with these states after each other; None: it is forgotten."""
    log = TransactionLog()
    for state in states:
        builder = BatchBuilder()
        if state is None:
            builder.add(*KINDS.encode(tombstone("billing")), 1)
        else:
            transaction = Transaction("billing", 7, 0, 60_000, 1, state, partitions=frozenset({HERE}))
            builder.add(*KINDS.encode(entry(transaction)), 1)
        log.learn(builder.build())
    return log


@pytest.mark.parametrize(
    ("states", "pending", "committed"),
    [
        ((), False, False),
        ((TransactionStatus.ONGOING,), True, False),
        ((TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT), True, True),
        ((TransactionStatus.ONGOING, TransactionStatus.PREPARE_ABORT), True, False),
        ((TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT), False, False),
        ((TransactionStatus.ONGOING, None), False, False),
    ],
)
def test_the_newest_record_decides(
    states: tuple[TransactionStatus | None, ...], pending: bool, committed: bool
) -> None:
    log = known(*states)
    assert log.is_pending(7, HERE) == pending and log.is_committed(7, HERE) == committed
    assert not log.is_pending(7, ELSEWHERE) and not log.is_pending(8, HERE)
