"""Many connections, each with one small produce request under way: the next leaves when the answer is there.

Requests are encoded before the clock starts, and answers are looked at only for their error code: what is left
is one receive and one send for each request, so that the broker, not this loop, sets the pace.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.admin import Identity, Topic, connect, receive
from bench.bulk import Load
from bench.requests import Batch, ProduceFrame, check_produced

ANSWER_BYTES_MAX = 4096


class ClosedLoop:
    """Without identities the requests are not idempotent; connections share the partitions in turn."""

    def __init__(
        self,
        port: int,
        topic: Topic,
        content: Batch,
        connections: int,
        identities: Sequence[Identity] | None,
    ) -> None:
        self._poll = select.epoll()
        self._lanes: dict[int, _Lane] = {}
        for number in range(connections):
            identity = None if identities is None else identities[number]
            frame = ProduceFrame(topic, number % topic.partitions, content, identity)
            lane = _Lane(connect(port), frame)
            self._lanes[lane.connection.fileno()] = lane
            self._poll.register(lane.connection.fileno(), select.EPOLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._poll.close()
        for lane in self._lanes.values():
            lane.connection.close()

    def prepare(self, requests: int) -> None:
        """Encodes what the next `run` sends, spread over the connections."""
        for lane in self._lanes.values():
            lane.prepare(-(-requests // len(self._lanes)))

    def run(self, seconds_max: float = 120.0) -> Load:
        """Sends what was prepared, or as much of it as the time allows; all is answered when it returns."""
        begin = time.perf_counter()
        deadline = begin + seconds_max
        lanes, poll = self._lanes, self._poll.poll
        waiting = done = 0
        for lane in lanes.values():
            lane.send()
            waiting += 1
        while waiting:
            late = time.perf_counter() > deadline
            for descriptor, _events in poll(seconds_max):
                lane = lanes[descriptor]
                lane.take_answer()
                done += 1
                if late or not lane.ready:
                    waiting -= 1
                else:
                    lane.send()
        return Load(done, time.perf_counter() - begin)


class _Lane:
    def __init__(self, connection: socket.socket, frame: ProduceFrame) -> None:
        self.connection = connection
        self.ready: list[bytes] = []  # last one first
        self._frame = frame
        self._sequence = 0
        self._answer_bytes = 0

    def prepare(self, count: int) -> None:
        wanted = count - len(self.ready)
        made = [bytes(self._frame.renew(self._sequence + number)) for number in range(wanted)]
        self._sequence += len(made)
        self.ready = made[::-1] + self.ready

    def send(self) -> None:
        self.connection.send(self.ready.pop())

    def take_answer(self) -> None:
        answer = self.connection.recv(ANSWER_BYTES_MAX)
        if len(answer) != self._answer_bytes:
            # All answers are equally long.  The first one tells; another length is one that came in parts.
            size = 4 + int.from_bytes(answer[:4], "big") if len(answer) >= 4 else ANSWER_BYTES_MAX
            answer += receive(self.connection, size - len(answer))
            self._answer_bytes = size
        check_produced(answer)
