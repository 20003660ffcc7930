"""One consumer of a queue: a task that acquires messages while its channel has credit, and delivers them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tidelog import errors
from tidelog.gateways.amqp.topology.arguments import PRIORITY
from tidelog.gateways.amqp.topology.model import AmqpQueue
from tidelog.logs import SparingLog

if TYPE_CHECKING:
    from tidelog.queues.message import Delivery
    from tidelog.queues.session import QueueSession

log = logging.getLogger("tidelog.amqp")
sparing = SparingLog(log)

ACQUIRED_AT_ONCE = 100
WAIT_MS = 30_000
AGAIN_S = 0.2


class DeliveryChannel(Protocol):
    def credit(self, consumer: QueueConsumer) -> int:
        """How many messages the consumer may be given now; 0: none before `changed` of the consumer is set."""
        ...

    def deliver(self, consumer: QueueConsumer, delivery: Delivery) -> None: ...
    def can_take(self, consumer: QueueConsumer) -> bool:
        """As `credit`, whatever consumers of higher priority there are."""
        ...

    def blocked(self, consumer: QueueConsumer) -> None:
        """The consumer can take nothing now: those of lower priority have their turn."""
        ...

    def ready(self, consumer: QueueConsumer) -> None:
        """The consumer can take messages again."""
        ...

    async def delivered(self, size: int) -> None:
        """`size` bytes were handed out.  Waits while the client does not read them, or while its quota is used up."""
        ...

    def consumer_ended(self, consumer: QueueConsumer) -> None:
        """The queue is gone."""
        ...


class QueueConsumer:
    def __init__(
        self,
        tag: str,
        queue: AmqpQueue,
        session: QueueSession,
        channel: DeliveryChannel,
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int,
        arguments: Mapping[str, Any],
        settled: Callable[[asyncio.Future[None]], None],
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.session = session
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.arguments = arguments
        self.priority: int = arguments.get(PRIORITY, 0)
        self.unacknowledged = 0
        self.cancelled = False
        self.changed = asyncio.Event()
        self._channel = channel
        self._settled = settled
        self._task: asyncio.Task[None] | None = None
        self._acquiring = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def can_take(self) -> bool:
        return not self.cancelled and self._channel.can_take(self)

    def give_way(self) -> None:
        """One of higher priority can take messages now: this consumer no longer waits for any."""
        if self._acquiring and not self.cancelled and self._task is not None:
            self._acquiring = False
            self._task.cancel()
            self._task = asyncio.get_running_loop().create_task(self._run_after(self._task))

    async def _run_after(self, cancelled: asyncio.Task[None]) -> None:
        """A session acquires once at a time."""
        await asyncio.gather(cancelled, return_exceptions=True)
        await self._run()

    async def _run(self) -> None:
        while True:
            credit = await self._credit()
            self._acquiring = True
            try:
                taken = await self.session.acquire(min(credit, ACQUIRED_AT_ONCE), wait_ms=WAIT_MS)
            except (errors.UnknownTopicOrPartition, errors.UnknownTopicId):
                self._channel.consumer_ended(self)
                return
            except errors.TidelogError as problem:
                sparing.warning(self.queue.topic, "consumer of queue %s: %s", self.queue.name, problem)
                await asyncio.sleep(AGAIN_S)
                continue
            self._acquiring = False
            await self._deliver(taken)

    async def _credit(self) -> int:
        if (credit := self._channel.credit(self)) > 0:
            return credit
        self._channel.blocked(self)
        while (credit := self._channel.credit(self)) <= 0:
            self.changed.clear()
            await self.changed.wait()
        self._channel.ready(self)
        return credit

    async def _deliver(self, taken: list[Delivery]) -> None:
        """Other consumers may have used up the credit of the channel meanwhile."""
        size = done = 0
        try:
            for delivery in taken:
                while not self._channel.can_take(self):
                    self._channel.blocked(self)
                    self.changed.clear()
                    await self.changed.wait()
                self._channel.deliver(self, delivery)
                size += len(delivery.value or b"")
                done += 1
        finally:
            positions = [delivery.position for delivery in taken]
            if done < len(taken):
                self._settled(self.session.release(positions[done:]))
            if self.no_ack and done:
                self._settled(self.session.acknowledge(positions[:done]))
        await self._channel.delivered(size)

    async def queue_deleted(self) -> None:
        await self.stop()
        self._channel.consumer_ended(self)

    async def stop(self) -> None:
        """No delivery follows; the session stays open for what is not acknowledged."""
        self.cancelled = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
