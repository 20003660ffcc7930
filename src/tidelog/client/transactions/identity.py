"""Who writes in a transaction: what leaders of partitions are told besides the records."""

from __future__ import annotations

from typing import NamedTuple


class TransactionIdentity(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
