"""A consumer of a queue: acquires records wherever their partitions are led, and settles them.

A leg is the session's part at one leader: in this process, or on another broker.  A session follows leaders that move; what
it had acquired from the old leader is delivered again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tidelog import errors
from tidelog.clock import Clock
from tidelog.queues.message import Delivery, Position, Settlement, by_partition
from tidelog.types import NodeId

BYTES_MAX = 1 << 20
LOOK_AGAIN_MS = 100  # while a leader is looked for
MOVED = (
    errors.NotLeaderOrFollower,
    errors.LeaderNotAvailable,
    errors.FencedLeaderEpoch,
    errors.BrokerNotAvailable,
    errors.CoordinatorNotAvailable,
    errors.NetworkException,
    errors.UnknownTopicId,  # `leaders` knows whether it is gone, or not known there yet
    errors.UnknownTopicOrPartition,
)

Leaders = dict[NodeId, tuple[int, ...]]
"""The partitions that each broker leads."""


class QueueLeg(Protocol):
    parts: tuple[int, ...]

    async def acquire(self, records_max: int, bytes_max: int, wait_ms: int) -> list[Delivery]:
        """Raises one of `MOVED` when the leg is of no use any more."""
        ...

    def settle(self, partition: int, offsets: Sequence[int], kind: Settlement) -> asyncio.Future[None]: ...
    async def close(self) -> None: ...


class QueueSession:
    """One `acquire` at a time; call `close`."""

    def __init__(
        self,
        leaders: Callable[[], Leaders],
        leg: Callable[[NodeId, tuple[int, ...]], QueueLeg],
        clock: Clock,
    ) -> None:
        """`leaders` raises UnknownTopicOrPartition when the topic is gone."""
        self._leaders = leaders
        self._leg = leg
        self._clock = clock
        self._legs: dict[NodeId, QueueLeg] = {}
        self._from: dict[int, QueueLeg] = {}  # by partition: who delivered from it
        self._closed = False

    async def acquire(
        self, records_max: int, *, bytes_max: int = BYTES_MAX, wait_ms: int = 0
    ) -> list[Delivery]:
        """At most `records_max` records, as soon as there is one; none after `wait_ms`."""
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while not self._closed:
            legs = await self._legs_now()
            left_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
            try:
                if len(legs) == 1:
                    delivered = await legs[0].acquire(records_max, bytes_max, left_ms)
                else:
                    delivered = await self._first_of(legs, records_max, bytes_max, left_ms)
            except MOVED:
                await self._drop_legs()
                delivered = []
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms > 0:
                    await asyncio.sleep(min(left_ms, LOOK_AGAIN_MS) / 1000)
            if len(delivered) > records_max:
                self.release([delivery.position for delivery in delivered[records_max:]])
            if delivered or self._clock.monotonic_ms() >= deadline_ms:
                return delivered[:records_max]
        return []

    async def _first_of(
        self, legs: Sequence[QueueLeg], records_max: int, bytes_max: int, wait_ms: int
    ) -> list[Delivery]:
        """Several leaders: whoever has records first, those that have any now one after the other."""
        if not legs:
            raise errors.LeaderNotAvailable("no partition of the queue has a leader now")
        for leg in sorted(legs, key=lambda leg: -max(leg.parts)):
            if delivered := await leg.acquire(records_max, bytes_max, 0):
                return delivered
        if not wait_ms:
            return []
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(leg.acquire(records_max, bytes_max, wait_ms)) for leg in legs]
        delivered = []
        given_up = True
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            given_up = False
            for task in tasks:
                delivered += task.result() if task in done else ()
        finally:
            for task in tasks:
                task.cancel()
            for late in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(late, list) and late and late[0] not in delivered:
                    delivered += late
            if given_up:
                self.release([delivery.position for delivery in delivered])
        return delivered

    # What becomes of acquired records: in effect for this session at once, and kept when the future is done

    def acknowledge(self, positions: Iterable[Position]) -> asyncio.Future[None]:
        return self.settle(positions, Settlement.ACCEPT)

    def release(self, positions: Iterable[Position]) -> asyncio.Future[None]:
        """Others may have them; this session, too."""
        return self.settle(positions, Settlement.RELEASE)

    def reject(self, positions: Iterable[Position]) -> asyncio.Future[None]:
        """They become dead letters, or are gone."""
        return self.settle(positions, Settlement.REJECT)

    def settle(self, positions: Iterable[Position], kind: Settlement) -> asyncio.Future[None]:
        waits = []
        for partition, offsets in by_partition(positions).items():
            leg = self._from.get(partition)
            if leg is None:
                waits.append(
                    _failed(errors.InvalidRecordState(f"nothing is acquired of partition {partition}"))
                )
            else:
                waits.append(leg.settle(partition, offsets, kind))
        if len(waits) == 1:
            return waits[0]
        return _all(waits)

    async def close(self) -> None:
        """Gives back what it holds."""
        self._closed = True
        await self._drop_legs()

    async def _legs_now(self) -> list[QueueLeg]:
        """The legs, as the leaders are now."""
        leaders = self._leaders()
        if {node: leg.parts for node, leg in self._legs.items()} != leaders:
            for node, leg in list(self._legs.items()):
                if leaders.get(node) != leg.parts:
                    await self._drop(node, leg)
            for node, parts in leaders.items():
                if node not in self._legs:
                    leg = self._legs[node] = self._leg(node, parts)
                    self._from.update(dict.fromkeys(parts, leg))
        return list(self._legs.values())

    async def _drop_legs(self) -> None:
        for node, leg in list(self._legs.items()):
            await self._drop(node, leg)

    async def _drop(self, node: NodeId, leg: QueueLeg) -> None:
        self._legs.pop(node, None)
        for partition in leg.parts:
            if self._from.get(partition) is leg:
                del self._from[partition]
        await leg.close()


def _failed(problem: errors.TidelogError) -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_exception(problem)
    done.exception()  # marks the exception as retrieved: nobody may be waiting
    return done


def _all(waits: Sequence[asyncio.Future[None]]) -> asyncio.Future[None]:
    """Done when all are; fails with the first failure."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def gathered() -> None:
        results = await asyncio.gather(*waits, return_exceptions=True)
        problems = [result for result in results if isinstance(result, BaseException)]
        if done.done():
            return
        if problems:
            done.set_exception(problems[0])
            done.exception()
        else:
            done.set_result(None)

    if not waits:
        done.set_result(None)
    else:
        task = asyncio.get_running_loop().create_task(gathered())
        task.add_done_callback(lambda _: None)
    return done
