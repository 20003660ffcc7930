"""Single active consumers: of all consumers of a queue, on all brokers, one is given messages.

A key in the metadata store names the broker that has it; there it is the consumer that came first.  When this broker has
none any more, it deletes the key, and the first other broker that notices puts its own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidelog.gateways.amqp.consumer import QueueConsumer
from tidelog.gateways.amqp.services import QueueConsumers
from tidelog.gateways.amqp.topology.arguments import SINGLE_ACTIVE
from tidelog.gateways.amqp.topology.model import active_key
from tidelog.gateways.amqp.topology.store import TopologyStore
from tidelog.metadata.store import ABSENT, Compare, Delete, Put


class ActiveConsumers:
    def __init__(
        self,
        topology: TopologyStore,
        consumers: QueueConsumers,
        home: str,
        live: Callable[[], Collection[str]],
    ) -> None:
        self._topology = topology
        self._consumers = consumers
        self._home = home
        self._live = live

    def allows(self, vhost: str, consumer: QueueConsumer) -> bool:
        queue = consumer.queue
        if queue.arguments.get(SINGLE_ACTIVE) is not True:
            return True
        if self._topology.vhost(vhost).active.get(queue.name) != self._home:
            return False
        return self._consumers.of(vhost, queue.name)[:1] == [consumer]

    async def claim(self, vhost: str, queue: str) -> None:
        """Unless another broker that lives has it."""
        holder = self._topology.vhost(vhost).active.get(queue)
        if holder == self._home or holder in self._live():
            return
        key = active_key(vhost, queue)
        compare = Compare(key, self._topology.revision_of(key) if holder else ABSENT)
        await self._topology.change([compare], [Put(key, self._home.encode())])

    async def leave(self, vhost: str, queue: str) -> None:
        if self._topology.vhost(vhost).active.get(queue) == self._home:
            await self._topology.change([], [Delete(active_key(vhost, queue))])

    def wake(self, vhost: str, queue: str) -> None:
        for consumer in self._consumers.of(vhost, queue):
            consumer.changed.set()

    async def run(self) -> None:
        """Follows the keys: what another broker has left is claimed, and consumers here look again."""
        while True:
            await self._topology.active_changed.wait()
            self._topology.active_changed.clear()
            while self._topology.activity:
                vhost, queue = self._topology.activity.popleft()
                if self._consumers.of(vhost, queue):
                    await self.claim(vhost, queue)
                    self.wake(vhost, queue)

    async def end_of_homes(self) -> None:
        """Claims what brokers had that are gone."""
        live = self._live()
        for name, vhost in list(self._topology.vhosts.items()):
            for queue, holder in list(vhost.active.items()):
                if holder not in live and self._consumers.of(name, queue):
                    await self.claim(name, queue)
                    self.wake(name, queue)
