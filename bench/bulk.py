"""Constant load of large batches: pipelined produce and fetch on a few blocking connections.

One thread serves all connections in turn.  It never waits for a connection that could be sent to, so that the
broker always has work queued, and its own cost (one checksum and one send for each 64 KB) stays far below.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from bench.admin import Identity, Topic, connect, receive
from bench.requests import (
    FETCH_RECORDS_AT,
    IN_FLIGHT_MAX,
    Batch,
    FetchFrame,
    ProduceFrame,
    check_produced,
    fetched,
)


class Load(NamedTuple):
    amount: int  # bytes of record batches, or requests
    seconds: float


class BulkProducer:
    """An idempotent producer for each partition of a topic, each with a connection of its own.  `contents` are sent
    in turn.  `port`: of the leader, or of each partition's own."""

    def __init__(
        self,
        port: int | Sequence[int],
        topic: Topic,
        contents: Sequence[Batch],
        identities: Sequence[Identity],
    ) -> None:
        assert len(identities) == topic.partitions
        ports = [port] * topic.partitions if isinstance(port, int) else port
        self._lanes = [
            _Lane(
                connect(ports[number]),
                [ProduceFrame(topic, number, content, identity) for content in contents],
            )
            for number, identity in enumerate(identities)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.connection.close()

    def run(self, size: int) -> Load:
        """At least `size` bytes of batches, all answered when it returns."""
        begin, sent = time.perf_counter(), 0
        while sent < size:
            for lane in self._lanes:
                if lane.in_flight == IN_FLIGHT_MAX:
                    lane.take_answer()
                sent += lane.send()
        for lane in self._lanes:
            while lane.in_flight:
                lane.take_answer()
        return Load(sent, time.perf_counter() - begin)

    def ends(self) -> list[int]:
        """Next offset of each partition."""
        return [lane.sent_count for lane in self._lanes]


class _Lane:
    def __init__(self, connection: socket.socket, frames: Sequence[ProduceFrame]) -> None:
        self.connection = connection
        self.in_flight = 0
        self.sent_count = 0
        self._frames = frames
        self._turn = 0

    def send(self) -> int:
        frame = self._frames[self._turn % len(self._frames)]
        self._turn += 1
        self.connection.sendall(frame.renew(self.sent_count))
        self.sent_count += frame.count
        self.in_flight += 1
        return frame.batch_bytes

    def take_answer(self) -> None:
        start = receive(self.connection, 4)
        check_produced(start + receive(self.connection, int.from_bytes(start, "big")))
        self.in_flight -= 1


class BulkConsumer:
    """Reads partitions from their first offset to their end, one fetch at a time on each of its connections.

    The batches of a partition are all alike, so the number of bytes says how many records came."""

    def __init__(self, port: int | Sequence[int], topic: Topic, content: Batch) -> None:
        """`port`: of the leader, or of each partition's own."""
        ports = [port] * topic.partitions if isinstance(port, int) else port
        self._content = content
        self._connections = [connect(each) for each in ports]
        self._frames = [FetchFrame(topic, number) for number in range(topic.partitions)]
        self._buffer = memoryview(bytearray(1 << 20))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()

    def run(self, ends: Sequence[int], size_max: int) -> Load:
        """From the start to `ends`, or until `size_max` bytes have come."""
        begin, taken = time.perf_counter(), 0
        offsets = [0] * len(ends)
        reading = list(range(len(ends)))
        for number in reading:
            self._connections[number].sendall(self._frames[number].at_offset(0))
        while reading:
            for number in tuple(reading):
                batches = self._take_answer(self._connections[number]) // len(self._content.data)
                taken += batches * len(self._content.data)
                offsets[number] += batches * self._content.records
                if offsets[number] >= ends[number] or taken >= size_max:
                    reading.remove(number)
                else:
                    self._connections[number].sendall(self._frames[number].at_offset(offsets[number]))
        return Load(taken, time.perf_counter() - begin)

    def _take_answer(self, connection: socket.socket) -> int:
        """Reads an answer to its end; the number of bytes of its records."""
        buffer = self._buffer
        filled = 0
        while filled < FETCH_RECORDS_AT + 4:
            filled += _some(connection, buffer[filled:])
        (size,) = struct.unpack_from(">i", buffer)
        records = fetched(buffer)
        left = size + 4 - filled
        while left:
            left -= _some(connection, buffer[: min(left, len(buffer))])
        return records.size


def _some(connection: socket.socket, into: memoryview) -> int:
    count = connection.recv_into(into)
    if not count:
        raise ConnectionError("the broker closed the connection")
    return count
