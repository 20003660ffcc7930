"""A replication connection: starts the stream of a slot, hands out its messages, says what is done with."""

from __future__ import annotations

import select
import struct
import time
from typing import Any, NamedTuple

from tidelog.connect.connector import Unavailable
from tidelog.connect.sources.postgres.pgoutput import POSTGRES_EPOCH_US

STATUS_S = 10.0
_XLOG = struct.Struct(">cqqq")
_KEEPALIVE = struct.Struct(">cqqB")
_STATUS = struct.Struct(">cqqqqB")


class StreamMessage(NamedTuple):
    lsn: int
    data: bytes
    """Empty for a keepalive: everything that was committed before `lsn` has been sent."""


class ReplicationStream:
    def __init__(self, connection: Any, slot: str, publication: str, start_lsn: int) -> None:
        from psycopg import pq

        self._connection = connection
        self._pg = connection.pgconn
        self._flushed = start_lsn
        self._said_at = 0.0
        names = publication.replace("'", "''").replace('"', '""')
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(start_lsn)} '
            f"(proto_version '1', publication_names '\"{names}\"', messages 'true')"
        )
        result = self._pg.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            message = result.error_message.decode("utf-8", "replace").strip()
            raise Unavailable(f"the replication slot {slot} cannot be read: {message}")

    def receive(self, wait_ms: int) -> StreamMessage | None:
        """The next message; None if there is none within `wait_ms`."""
        import psycopg

        try:
            return self._receive(wait_ms)
        except psycopg.Error as problem:
            raise Unavailable(f"replication ended: {str(problem).strip()}") from None

    def _receive(self, wait_ms: int) -> StreamMessage | None:
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            self._say_status()
            size, data = self._pg.get_copy_data(1)
            if size > 0:
                return self._read(bytes(data))
            if size < 0:
                self._ended()
            left = deadline - time.monotonic()
            if left <= 0 and wait_ms:
                return None
            readable, _, _ = select.select([self._pg.socket], [], [], max(0.0, left))
            if readable:
                self._pg.consume_input()
            elif left <= 0:
                return None

    def _read(self, data: bytes) -> StreamMessage:
        if data[:1] == b"w":
            _, start, _, _ = _XLOG.unpack_from(data)
            return StreamMessage(start, data[_XLOG.size :])
        _, end, _, wants_answer = _KEEPALIVE.unpack_from(data)
        if wants_answer:
            self._said_at = 0.0
        return StreamMessage(end, b"")

    def _ended(self) -> None:
        result = self._pg.get_result()
        message = "the server has closed the stream"
        if result is not None and result.error_message:
            message = result.error_message.decode("utf-8", "replace").strip()
        raise Unavailable(f"replication ended: {message}")

    def flushed(self, lsn: int) -> None:
        """The server may forget what is before."""
        if lsn > self._flushed:
            self._flushed = lsn
            self._said_at = 0.0  # said with the next message

    def _say_status(self) -> None:
        now = time.monotonic()
        if now - self._said_at < STATUS_S:
            return
        self._said_at = now
        sent_us = time.time_ns() // 1000 - POSTGRES_EPOCH_US
        status = _STATUS.pack(b"r", self._flushed, self._flushed, self._flushed, sent_us, 0)
        self._pg.put_copy_data(status)
        self._pg.flush()

    def close(self) -> None:
        self._connection.close()


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)
