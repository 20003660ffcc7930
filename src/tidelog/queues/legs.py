"""A session's part at one leader: `LocalLeg` in this process, `RemoteLeg` on another broker, with Kafka's own requests.

Both hold what they acquired for as long as they are open: a local lock has no end, a remote one is renewed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.groups.share.fetch import ShareFetch, ShareFetchLimits
from tidelog.groups.share.partition import AcknowledgeType, AcquiredRange
from tidelog.groups.share.partitions import SharePartitions
from tidelog.net.requester import Requester
from tidelog.queues.message import Delivery, Settlement, deliveries, gaps, ranges
from tidelog.wire.messages import share_acknowledge as ack
from tidelog.wire.messages import share_fetch as fetch

log = logging.getLogger("tidelog.queues")

RECORD_LIMIT = 1  # of share.acquire.mode
FIRST_EPOCH, LAST_EPOCH = 0, -1
WAIT_MS_MAX = 10_000
SESSION_LOST = (
    errors.ShareSessionNotFound,
    errors.InvalidShareSessionEpoch,
)


class QueueReader(NamedTuple):
    """Who reads what."""

    group: str
    member: str
    topic_id: UUID


class LocalLeg:
    def __init__(self, shares: SharePartitions, reader: QueueReader, parts: tuple[int, ...]) -> None:
        self.parts = parts
        self._shares = shares
        self._reader = reader
        self._opened = False

    async def acquire(self, records_max: int, bytes_max: int, wait_ms: int) -> list[Delivery]:
        group, member, topic_id = self._reader
        if not self._opened:
            self._opened = True
            self._shares.attach(group)
        limits = ShareFetchLimits(wait_ms, 1, bytes_max, records_max, 0, strict=True, keeps=True)
        results = await ShareFetch(self._shares, group, member, limits).run(
            [(topic_id, part) for part in self.parts]
        )
        delivered: list[Delivery] = []
        problem: errors.TidelogError | None = None
        for (_, part), result in results.items():
            if isinstance(result, errors.TidelogError):
                problem = result
                continue
            taken = deliveries(
                part, result.records, result.acquired, check_crc=False
            )  # the fetch has checked them
            if sum(last - first + 1 for first, last, _ in result.acquired) > len(taken):
                self._archive(part, result.acquired, taken)
            delivered += taken
        if problem is not None and not delivered:
            raise problem
        return delivered

    def _archive(self, part: int, acquired: Sequence[AcquiredRange], taken: Sequence[Delivery]) -> None:
        led = self._shares.led(self._reader.group, (self._reader.topic_id, part))
        if led is not None:
            led.acknowledge(self._reader.member, gaps(acquired, taken))

    def settle(self, partition: int, offsets: Sequence[int], kind: Settlement) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        led = self._shares.led(self._reader.group, (self._reader.topic_id, partition))
        try:
            if led is None:
                raise errors.InvalidRecordState(f"partition {partition} has another leader now")
            wait = led.acknowledge(self._reader.member, ranges(offsets, kind))
        except errors.TidelogError as problem:
            done.set_exception(problem)
            done.exception()  # marks the exception as retrieved: nobody may be waiting
            return done
        if wait is None:
            done.set_result(None)
            return done
        return wait

    async def close(self) -> None:
        if self._opened:
            self._opened = False
            await self._shares.detach(self._reader.group, self._reader.member)


class RemoteLeg:
    def __init__(
        self,
        connect: Callable[[], Awaitable[Requester]],
        reader: QueueReader,
        parts: tuple[int, ...],
    ) -> None:
        self.parts = parts
        self._connect = connect
        self._reader = reader
        self._connection: Requester | None = None
        self._epoch = FIRST_EPOCH
        self._held: set[tuple[int, int]] = set()
        self._asked: asyncio.Future[fetch.ShareFetchResponse] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def acquire(self, records_max: int, bytes_max: int, wait_ms: int) -> list[Delivery]:
        """A request that was given up while it waited is answered here: its records are this session's."""
        if self._asked is None:
            connection = await self._connected()
            self._asked = connection.submit(
                self._fetch(records_max, bytes_max, min(wait_ms, WAIT_MS_MAX)),
                fetch.ShareFetchResponse,
                timeout_ms=WAIT_MS_MAX + 30_000,
            )
        try:
            answer = await asyncio.shield(self._asked)
        except errors.TidelogError:
            self._asked = None
            raise
        self._asked = None
        return self._taken(answer)

    async def _connected(self) -> Requester:
        if self._connection is None or self._connection.broken is not None:
            self._connection = await self._connect()
            self._epoch = FIRST_EPOCH
            self._held.clear()
        return self._connection

    def _fetch(self, records_max: int, bytes_max: int, wait_ms: int) -> fetch.ShareFetchRequest:
        group, member, topic_id = self._reader
        named = [fetch.FetchPartition(partition_index=part) for part in self.parts]
        return fetch.ShareFetchRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=self._next_epoch(),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            max_records=records_max,
            share_acquire_mode=RECORD_LIMIT,
            topics=[fetch.FetchTopic(topic_id, named)] if self._epoch == 1 else [],
        )

    def _next_epoch(self) -> int:
        epoch, self._epoch = self._epoch, self._epoch + 1
        return epoch

    def _taken(self, answer: fetch.ShareFetchResponse) -> list[Delivery]:
        if answer.error_code != errors.NONE:
            problem = errors.by_code(answer.error_code)(answer.error_message or "")
            if isinstance(problem, SESSION_LOST):
                raise errors.NotLeaderOrFollower(str(problem))
            raise problem
        delivered: list[Delivery] = []
        for topic in answer.responses:
            # The higher partition comes first, as it does where partitions are priorities.
            for part in sorted(topic.partitions, key=lambda part: -part.partition_index):
                if part.error_code != errors.NONE:
                    raise errors.by_code(part.error_code)(part.error_message or "")
                acquired = [
                    AcquiredRange(each.first_offset, each.last_offset, each.delivery_count)
                    for each in part.acquired_records
                ]
                taken = deliveries(part.partition_index, bytes(part.records or b""), acquired, check_crc=True)
                for missing in gaps(acquired, taken):
                    self._send(
                        part.partition_index, range(missing.first, missing.last + 1), AcknowledgeType.GAP
                    )
                delivered += taken
        self._held.update(delivery.position for delivery in delivered)
        if delivered and self._renewing is None and answer.acquisition_lock_timeout_ms > 0:
            every_s = answer.acquisition_lock_timeout_ms / 3000
            self._renewing = asyncio.get_running_loop().create_task(self._renew(every_s))
        return delivered

    def settle(self, partition: int, offsets: Sequence[int], kind: Settlement) -> asyncio.Future[None]:
        if kind is not Settlement.RENEW:
            self._held.difference_update((partition, offset) for offset in offsets)
        return asyncio.ensure_future(self._settled(self._send(partition, offsets, kind)))

    def _send(
        self, partition: int, offsets: Sequence[int], kind: int
    ) -> asyncio.Future[ack.ShareAcknowledgeResponse]:
        connection = self._connection
        if connection is None or connection.broken is not None:
            lost: asyncio.Future[ack.ShareAcknowledgeResponse] = asyncio.get_running_loop().create_future()
            lost.set_exception(errors.InvalidRecordState("the connection to the queue's leader is lost"))
            lost.exception()  # marks the exception as retrieved: nobody may be waiting
            return lost
        batches = [
            ack.AcknowledgementBatch(each.first, each.last, list(each.types))
            for each in ranges(offsets, kind)
        ]
        request = ack.ShareAcknowledgeRequest(
            group_id=self._reader.group,
            member_id=self._reader.member,
            share_session_epoch=self._next_epoch(),
            is_renew_ack=kind == AcknowledgeType.RENEW,
            topics=[
                ack.AcknowledgeTopic(self._reader.topic_id, [ack.AcknowledgePartition(partition, batches)])
            ],
        )
        return connection.submit(request, ack.ShareAcknowledgeResponse)

    @staticmethod
    async def _settled(answered: asyncio.Future[ack.ShareAcknowledgeResponse]) -> None:
        answer = await answered
        codes = [(answer.error_code, answer.error_message)]
        codes += [
            (part.error_code, part.error_message) for topic in answer.responses for part in topic.partitions
        ]
        for code, message in codes:
            if code != errors.NONE:
                raise errors.by_code(code)(message or "")

    async def _renew(self, every_s: float) -> None:
        """Locks last as long as the session, though the leader only grants a time."""
        while True:
            await asyncio.sleep(every_s)
            parts: dict[int, list[int]] = {}
            for partition, offset in self._held:
                parts.setdefault(partition, []).append(offset)
            for partition, offsets in parts.items():
                try:
                    await self._settled(self._send(partition, offsets, AcknowledgeType.RENEW))
                except errors.TidelogError as problem:
                    log.warning("locks of %s cannot be renewed: %s", self._reader.group, problem)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        connection, self._connection = self._connection, None
        self._asked = None
        if connection is None or connection.broken is not None:
            return
        group, member, _ = self._reader
        last = fetch.ShareFetchRequest(group_id=group, member_id=member, share_session_epoch=LAST_EPOCH)
        try:
            await connection.submit(last, fetch.ShareFetchResponse)
        except errors.TidelogError as problem:
            log.debug("a session of %s ended with its connection: %s", group, problem)
        finally:
            connection.close()
