"""What a connection of AMQP may use.  Built once by `server.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.broker.services import Services
from tidelog.gateways.amqp.direct_reply import DirectReplies
from tidelog.gateways.amqp.topology.declarations import Declarations
from tidelog.gateways.amqp.topology.store import TopologyStore

if TYPE_CHECKING:
    from tidelog.gateways.amqp.consumer import QueueConsumer

FRAME_BYTES_MAX = 131_072
CHANNELS_MAX = 2047
HEARTBEAT_S = 60
BODY_BYTES_MAX = 134_217_728


class QueueConsumers:
    """The consumers on this broker, by virtual host and queue, in the order in which they came."""

    def __init__(self) -> None:
        self._by_queue: dict[tuple[str, str], list[QueueConsumer]] = {}
        self._ranked: set[tuple[str, str]] = set()

    def of(self, vhost: str, queue: str) -> list[QueueConsumer]:
        return self._by_queue.get((vhost, queue), [])

    def add(self, vhost: str, queue: str, consumer: QueueConsumer) -> None:
        self._by_queue.setdefault((vhost, queue), []).append(consumer)
        if consumer.priority:
            self._ranked.add((vhost, queue))

    def above(self, vhost: str, consumer: QueueConsumer) -> list[QueueConsumer]:
        """The queue's consumers with a higher priority than `consumer`."""
        key = vhost, consumer.queue.name
        if key not in self._ranked:
            return []
        return [other for other in self._by_queue[key] if other.priority > consumer.priority]

    def below(self, vhost: str, consumer: QueueConsumer) -> list[QueueConsumer]:
        """The queue's consumers with a lower priority than `consumer`."""
        key = vhost, consumer.queue.name
        if key not in self._ranked:
            return []
        return [other for other in self._by_queue[key] if other.priority < consumer.priority]

    def remove(self, vhost: str, queue: str, consumer: QueueConsumer) -> None:
        consumers = self._by_queue.get((vhost, queue), [])
        if consumer in consumers:
            for other in self.below(vhost, consumer):
                other.changed.set()
            consumers.remove(consumer)
            if not consumers:
                del self._by_queue[vhost, queue]
                self._ranked.discard((vhost, queue))


@dataclass(frozen=True, slots=True)
class AmqpServices:
    broker: Services
    topology: TopologyStore
    declarations: Declarations
    cluster_name: str
    consumers: QueueConsumers = field(default_factory=QueueConsumers)
    replies: DirectReplies = field(default_factory=DirectReplies)
