"""A transaction that was written by one process and is ended by another.  Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """Everything in it is acknowledged; `Admin.end_transaction` decides how it ends.  Until then it is open, and its
    time runs.

    `implicit`: which of the two protocols it was written with."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    implicit: bool
