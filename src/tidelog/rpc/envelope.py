"""The headers of requests and replies.  Pure.

AMQP's properties are headers, too: a request of an AMQP client is answered to the queue that it names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CORRELATION, REPLY_TO, FAILED = "tidelog.correlation-id", "tidelog.reply-to", "tidelog.failed"
AMQP_CORRELATION, AMQP_REPLY_TO = "amqp.correlation-id", "amqp.reply-to"
TTL = "tidelog.ttl.ms"

HeaderList = list[tuple[str, bytes | None]]


class CallFailed(Exception):
    """The responder could not answer; the text is what it says."""


class ReplyAddress(NamedTuple):
    """`partition` is None for the queue of an AMQP client."""

    topic: str
    partition: int | None
    correlation: bytes
    correlation_header: str

    def headers(self, failure: str | None) -> HeaderList:
        headers: HeaderList = [(self.correlation_header, self.correlation)]
        if failure is not None:
            headers.append((FAILED, failure.encode(errors="replace")))
        return headers


def request_headers(
    topic: str, partition: int, correlation: str, timeout_ms: int, headers: Iterable[tuple[str, bytes | None]]
) -> HeaderList:
    """A request that nobody has taken when its caller gives up expires."""
    return [
        *headers,
        (CORRELATION, correlation.encode()),
        (REPLY_TO, f"{topic}/{partition}".encode()),
        (TTL, b"%d" % max(timeout_ms, 1)),
    ]


def reply_address(headers: Iterable[tuple[str, bytes | None]]) -> ReplyAddress | None:
    """Where the answer goes; None for a message that wants none."""
    values = {name: value or b"" for name, value in headers}
    topic, slash, partition = values.get(REPLY_TO, b"").decode(errors="replace").rpartition("/")
    if slash and topic and partition.isdecimal() and len(partition) < 10:
        return ReplyAddress(topic, int(partition), values.get(CORRELATION, b""), CORRELATION)
    queue = values.get(AMQP_REPLY_TO, b"").decode(errors="replace")
    if queue:
        return ReplyAddress(queue, None, values.get(AMQP_CORRELATION, b""), AMQP_CORRELATION)
    return None


def correlation_of(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    for name, value in headers:
        if name == CORRELATION:
            return (value or b"").decode(errors="replace")
    return None


def failure_of(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    for name, value in headers:
        if name == FAILED:
            return (value or b"").decode(errors="replace")
    return None
