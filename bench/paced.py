"""Records at a constant rate, and how long each took: to its acknowledgement, and to a consumer.

A producer without linger: what is due is sent at once, unless five requests are under way; then it joins the next
one.  Time counts from when a record was due, not from when it was sent, so a broker that stalls is charged for
every record that had to wait.  Producer and consumer share one thread, whose part in the figures is the same
for all systems.
"""

from __future__ import annotations

import ctypes
import gc
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.admin import Identity, Topic, connect, receive
from bench.requests import (
    IN_FLIGHT_MAX,
    Batch,
    FetchFrame,
    ProduceFrame,
    check_produced,
    fetched,
)
from tidelog._speed.log.batch import HEADER_SIZE, walk
from tidelog._speed.log.records import read
from tidelog.record import BatchBuilder

PR_SET_TIMERSLACK = 29
SETTLE_SECONDS_MAX = 15.0
_DUE = struct.Struct(">q")


@dataclass
class Latencies:
    """In milliseconds, in the order of the records; `due` is when each should have left, in seconds since the start."""

    due: list[float] = field(default_factory=list)
    acknowledged: list[float] = field(default_factory=list)
    consumed: list[float] = field(default_factory=list)


class Paced:
    """One run: `run` sends for some seconds, and returns when everything has arrived."""

    def __init__(
        self, port: int, topic: Topic, identity: Identity, record_bytes: int = 100, consume: bool = True
    ) -> None:
        self._topic = topic
        self._identity = identity
        self._padding = bytes(record_bytes - _DUE.size)
        self._producer = connect(port)
        self._consumer = connect(port) if consume else None
        self._fetch = FetchFrame(topic, 0)
        self._sequence = 0
        self._in_flight: deque[list[int]] = deque()
        self._offset = 0
        self._fetching = False
        self._start_ns = 0
        self._result = Latencies()

    def close(self) -> None:
        self._producer.close()
        if self._consumer is not None:
            self._consumer.close()

    def run(
        self, rate: int, seconds: float, each_100_ms: Callable[[float], bool] = lambda _now: True
    ) -> Latencies:
        """`each_100_ms` gets the seconds since the start, and may end the run by returning false."""
        # Without this the kernel may wake a sleeper 50 us late, half of the interval at 10,000 records/s.
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        gc.collect()
        gc.disable()
        try:
            self._loop(rate, seconds, each_100_ms)
        finally:
            gc.enable()
        return self._result

    def _loop(self, rate: int, seconds: float, each_100_ms: Callable[[float], bool]) -> None:
        self._result = Latencies()
        interval = 1_000_000_000 // rate
        total = int(rate * seconds)
        self._start_ns = start = time.perf_counter_ns()
        made, next_tick = 0, start
        waiting: list[int] = []
        if self._consumer is not None and not self._fetching:
            self._consumer.sendall(self._fetch.at_offset(0))
            self._fetching = True
        while made < total or waiting or self._in_flight or self._missing():
            now = time.perf_counter_ns()
            if now > start + int((seconds + SETTLE_SECONDS_MAX) * 1e9):
                raise TimeoutError(
                    f"records were still missing {SETTLE_SECONDS_MAX} s after the last was sent"
                )
            if now >= next_tick:
                next_tick += 100_000_000
                if made < total and not each_100_ms((now - start) / 1e9):
                    total = made
            while made < total and start + made * interval <= now:
                waiting.append(start + made * interval)
                made += 1
            if waiting and len(self._in_flight) < IN_FLIGHT_MAX:
                self._send(waiting)
                waiting = []
            pause = 0.05 if made >= total else max(0, start + made * interval - time.perf_counter_ns()) / 1e9
            self._receive(pause)

    def _missing(self) -> bool:
        return self._consumer is not None and len(self._result.consumed) < len(self._result.acknowledged)

    def _send(self, due: list[int]) -> None:
        builder = BatchBuilder()
        now_ms = time.time_ns() // 1_000_000
        for moment in due:
            builder.add(None, _DUE.pack(moment) + self._padding, now_ms)
        content = Batch(builder.build(), builder.count)
        frame = ProduceFrame(self._topic, 0, content, self._identity)
        self._producer.sendall(frame.renew(self._sequence))
        self._sequence += content.records
        self._in_flight.append(due)

    def _receive(self, pause: float) -> None:
        sockets = [self._producer] if self._consumer is None else [self._producer, self._consumer]
        for ready in select.select(sockets, [], [], pause)[0]:
            if ready is self._consumer:
                self._take_records(ready)
            else:
                self._take_answer()

    def _take_answer(self) -> None:
        check_produced(_frame(self._producer))
        now = time.perf_counter_ns()
        for moment in self._in_flight.popleft():
            self._result.due.append((moment - self._start_ns) / 1e9)
            self._result.acknowledged.append((now - moment) / 1e6)

    def _take_records(self, consumer: socket.socket) -> None:
        answer = memoryview(_frame(consumer))
        now = time.perf_counter_ns()
        position, size = fetched(answer)
        records = answer[position : position + size]
        for header in walk(records):
            section = records[header.position + HEADER_SIZE : header.position + header.size]
            for record in read(section, header.count, header.base_offset, header.base_timestamp):
                assert record.value is not None
                self._result.consumed.append((now - _DUE.unpack_from(record.value)[0]) / 1e6)
            self._offset = header.last_offset + 1
        consumer.sendall(self._fetch.at_offset(self._offset))


def _frame(connection: socket.socket) -> bytes:
    start = receive(connection, 4)
    return start + receive(connection, int.from_bytes(start, "big"))
