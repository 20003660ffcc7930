"""A transaction that was written by one process and is ended by another.  Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """All records of the transaction are acknowledged; `Admin.end_transaction` commits or aborts it.  Until then it
    is open, and its timeout runs.

    `implicit`: true for the newer of the two transaction protocols."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    implicit: bool
