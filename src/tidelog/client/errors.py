"""Errors that only clients raise; all others are in `tidelog.errors`."""

from __future__ import annotations

from tidelog.errors import RequestTimedOut, TidelogError
from tidelog.net.requester import Unreachable

__all__ = [
    "BufferExhausted",
    "ClientClosed",
    "CommitFailed",
    "DeliveryTimedOut",
    "ProcessingFailed",
    "TransactionAborted",
    "Unreachable",
]


class BufferExhausted(TidelogError):
    """The producer holds as much as `buffer_memory` allows and could not send enough of it within
    `max_block_ms`."""


class ClientClosed(TidelogError):
    """The producer, consumer or admin was closed: make a new one."""


class DeliveryTimedOut(RequestTimedOut):
    """A record was not acknowledged within `delivery_timeout_ms`.  It may still have been written."""


class TransactionAborted(TidelogError):
    """The record's transaction was aborted before the record was sent."""


class CommitFailed(TidelogError):
    """Offsets were not committed, because the consumer is not in its group any more."""


class ProcessingFailed(TidelogError):
    """A record could not be processed, however often it was tried, and there is no dead-letter topic."""
