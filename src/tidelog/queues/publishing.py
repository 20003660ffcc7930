"""Publishing: messages of one partition, in batches, to whichever broker leads it.

Messages land in the order in which they were published.  What comes while a batch is under way makes the next batch.  A
message is published when all in-sync replicas have it.  A batch that was certainly not appended is sent again while a leader
is looked for; one whose answer was lost fails, because it may be there already."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tidelog import errors
from tidelog.clock import Clock
from tidelog.groups.share.other_brokers import RemotePartitions
from tidelog.queues.message import NOW, Published, QueueMessage
from tidelog.record.builder import BatchBuilder

PENDING_BYTES_MAX = 64 << 20
BATCH_BYTES = 512 << 10
MESSAGE_BYTES = 64  # what a message takes besides its content
RETRY_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
NOT_APPENDED = (errors.NotLeaderOrFollower, errors.LeaderNotAvailable, errors.BrokerNotAvailable)

_Pending = tuple[QueueMessage, int, "asyncio.Future[Published]"]
Place = tuple[str, int]


class Publisher:
    def __init__(self, elsewhere: RemotePartitions, bytes_max: Callable[[str], int], clock: Clock) -> None:
        """`bytes_max`: of one batch of a topic."""
        self._elsewhere = elsewhere
        self._bytes_max = bytes_max
        self._clock = clock
        self._writers: dict[Place, _PartitionWriter] = {}
        self.pending_bytes = 0

    def publish(self, topic: str, index: int, message: QueueMessage) -> asyncio.Future[Published]:
        done: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        size = _size(message)
        if self.pending_bytes + size > PENDING_BYTES_MAX and self.pending_bytes:
            done.set_exception(
                errors.ThrottlingQuotaExceeded(
                    f"{self.pending_bytes} bytes wait to be published: wait for confirmations before you publish more"
                )
            )
            return done
        self.pending_bytes += size
        place = (topic, index)
        writer = self._writers.get(place)
        if writer is None:
            writer = self._writers[place] = _PartitionWriter(self, place)
        writer.pending.append((message, size, done))
        return done

    async def stop(self) -> None:
        await asyncio.gather(*(writer.task for writer in self._writers.values()), return_exceptions=True)

    # For writers

    def idle(self, place: Place) -> None:
        del self._writers[place]

    def batch(self, topic: str, pending: deque[_Pending]) -> tuple[bytes, list[_Pending]]:
        """The next batch, at least one message."""
        now_ms = self._clock.now_ms()
        limit = min(BATCH_BYTES, max(self._bytes_max(topic) - MESSAGE_BYTES, 0))
        builder, taken, total = BatchBuilder(), list[_Pending](), 0
        while pending and (not taken or total + pending[0][1] <= limit):
            message, size, _ = entry = pending.popleft()
            total += size
            timestamp = now_ms if message.timestamp_ms == NOW else message.timestamp_ms
            builder.add(message.key, message.value, timestamp, message.headers)
            taken.append(entry)
        return builder.build(), taken

    async def append(self, place: Place, batch: bytes) -> int:
        problem: errors.TidelogError | None = None
        for wait_s in (0.0, *RETRY_S):
            if wait_s:
                await asyncio.sleep(wait_s)
            try:
                return await self._elsewhere.append(*place, batch, self._clock.now_ms())
            except NOT_APPENDED as again:
                problem = again
        assert problem is not None
        raise problem


class _PartitionWriter:
    """Writes one batch at a time; ends when nothing is pending."""

    def __init__(self, publisher: Publisher, place: Place) -> None:
        self._publisher = publisher
        self._place = place
        self.pending: deque[_Pending] = deque()
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        publisher, (topic, index) = self._publisher, self._place
        try:
            while self.pending:
                batch, taken = publisher.batch(topic, self.pending)
                try:
                    base = await publisher.append(self._place, batch)
                except errors.PolicyViolation as problem:
                    await self._one_by_one(taken, problem)
                except errors.TidelogError as problem:
                    self._failed(taken, problem)
                else:
                    for at, (_, _, done) in enumerate(taken):
                        if not done.done():
                            done.set_result(Published(index, base + at))
                finally:
                    publisher.pending_bytes -= sum(size for _, size, _ in taken)
        finally:
            publisher.idle(self._place)

    async def _one_by_one(self, taken: list[_Pending], problem: errors.TidelogError) -> None:
        """The queue has no room for all of them; it may have room for the first ones."""
        if len(taken) == 1:
            return self._failed(taken, problem)
        for entry in taken:
            batch, alone = self._publisher.batch(self._place[0], deque([entry]))
            try:
                base = await self._publisher.append(self._place, batch)
            except errors.TidelogError as refusal:
                self._failed(alone, refusal)
            else:
                if not entry[2].done():
                    entry[2].set_result(Published(self._place[1], base))
        return None

    @staticmethod
    def _failed(taken: list[_Pending], problem: errors.TidelogError) -> None:
        for _, _, done in taken:
            if not done.done():
                done.set_exception(problem)
                done.exception()  # marks the exception as retrieved: the publisher may be gone


def _size(message: QueueMessage) -> int:
    headers = sum(len(name) + len(value or b"") + 8 for name, value in message.headers)
    return len(message.key or b"") + len(message.value or b"") + headers + MESSAGE_BYTES
