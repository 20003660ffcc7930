"""Declares and deletes exchanges, queues and bindings: checks what a client asks for, changes the metadata store, makes
and deletes the topics of queues.

Every method decides on the newest topology that this broker knows, and decides again when another broker has changed the
same keys meanwhile."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidelog import errors
from tidelog.gateways.amqp.replies import ChannelFault, access_refused, not_found, precondition_failed
from tidelog.gateways.amqp.topology import checks
from tidelog.gateways.amqp.topology.arguments import (
    GROUPS,
    check_queue_arguments,
    group_settings,
    partitions_of,
    topic_settings,
)
from tidelog.gateways.amqp.topology.model import (
    EXCHANGE,
    QUEUE,
    AmqpExchange,
    AmqpQueue,
    Binding,
    active_key,
    binding_key,
    encode,
    exchange_key,
    queue_key,
    topic_of,
    use_prefix,
)
from tidelog.gateways.amqp.topology.store import TopologyStore
from tidelog.gateways.amqp.topology.vhost import AmqpVhost
from tidelog.metadata.controller import Controller
from tidelog.metadata.store import ABSENT, Compare, Delete, DeletePrefix, Put
from tidelog.metadata.topics.names import INTERNAL
from tidelog.metadata.topics.plans import TopicSpec

TRIES_MAX = 20


@dataclass(frozen=True, slots=True)
class Declarer:
    """The client that declares: a connection, the virtual host that it opened, and the tenant of the virtual host."""

    connection: str
    vhost: str
    tenant: str | None


class Declarations:
    def __init__(self, topology: TopologyStore, controller: Controller, home: str) -> None:
        """`home`: this run of this broker, with which queues end that are not durable."""
        self._topology = topology
        self._controller = controller
        self._home = home

    def vhost(self, declarer: Declarer) -> AmqpVhost:
        return self._topology.vhost(declarer.vhost)

    # Exchanges

    def exchange(self, declarer: Declarer, name: str) -> AmqpExchange:
        exchange = self.vhost(declarer).exchanges.get(name)
        if exchange is None:
            raise not_found("exchange", name, declarer.vhost)
        return exchange

    async def declare_exchange(self, declarer: Declarer, wanted: AmqpExchange) -> None:
        checks.check_kind(wanted.kind)
        checks.check_delayed(wanted)
        key = exchange_key(declarer.vhost, wanted.name)
        for _ in range(TRIES_MAX):
            current = self.vhost(declarer).exchanges.get(wanted.name)
            if current is not None:
                checks.check_same_exchange(current, wanted, declarer.vhost)
                return
            checks.check_exchange_name(wanted.name)
            checks.check_arguments("exchange", wanted.name, wanted.arguments)
            checks.check_count("exchange", len(self.vhost(declarer).exchanges), declarer.vhost)
            if await self._topology.change([Compare(key, ABSENT)], [Put(key, encode(wanted))]):
                return
        raise _contended()

    async def delete_exchange(self, declarer: Declarer, name: str, if_unused: bool) -> None:
        checks.check_deletable(name, declarer.vhost)
        vhost, key = self.vhost(declarer), exchange_key(declarer.vhost, name)
        for _ in range(TRIES_MAX):
            if name not in vhost.exchanges:
                return
            if if_unused and vhost.bindings_of_source(name):
                raise precondition_failed(f"exchange '{name}' in vhost '{declarer.vhost}' in use")
            bindings = {**vhost.bindings_of_source(name), **vhost.bindings_of_destination(EXCHANGE, name)}
            await self._delete_keys(list(bindings)[: -self._most])
            rest = list(bindings)[-self._most :]
            compare = [Compare(key, self._topology.revision_of(key))]
            if await self._topology.change(compare, [Delete(key), *map(Delete, rest)]):
                await self._unused(declarer, bindings.values())
                return
        raise _contended()

    @property
    def _most(self) -> int:
        return self._topology.operations_max - 4

    async def _delete_keys(self, keys: list[str]) -> None:
        for at in range(0, len(keys), self._most):
            await self._topology.change([], [Delete(key) for key in keys[at : at + self._most]])

    # Queues

    def queue(self, declarer: Declarer, name: str) -> AmqpQueue:
        queue = self.vhost(declarer).queues.get(name)
        if queue is None:
            raise not_found("queue", name, declarer.vhost)
        checks.check_access(queue, declarer.connection, declarer.vhost)
        return queue

    def new_queue_name(self) -> str:
        return f"amq.gen-{secrets.token_urlsafe(16)}"

    async def declare_queue(self, declarer: Declarer, wanted: AmqpQueue, named_here: bool) -> AmqpQueue:
        """`named_here`: this broker chose the name."""
        vhost, key = self.vhost(declarer), queue_key(declarer.vhost, wanted.name)
        for _ in range(TRIES_MAX):
            current = vhost.queues.get(wanted.name)
            if current is not None:
                checks.check_same_queue(current, wanted, declarer.vhost)
                return current
            if not named_here:
                checks.check_queue_name(wanted.name)
            check_queue_arguments(wanted, declarer.vhost)
            checks.check_arguments("queue", wanted.name, wanted.arguments)
            topic = topic_of(wanted.name, declarer.tenant)
            self._check_topic(topic)
            existing = self._controller.image.topics.get(topic)
            adopted = existing is not None
            if existing is not None and len(existing.partitions) != partitions_of(wanted):
                raise precondition_failed(
                    f"topic '{topic}' has {len(existing.partitions)} partitions, queue '{wanted.name}' in vhost "
                    f"'{declarer.vhost}' needs {partitions_of(wanted)}"
                )
            queue = wanted._replace(
                topic=topic,
                adopted=adopted,
                home="" if wanted.durable and not wanted.exclusive else self._home,
            )
            if adopted:
                await self._adopt_topic(queue)
            else:
                await self._create_topic(queue)
            await self._controller.alter_group_configs(
                topic,
                lambda configs, queue=queue: {**configs, **group_settings(queue)},  # type: ignore[misc]
            )
            if await self._topology.change([Compare(key, ABSENT)], [Put(key, encode(queue))]):
                return queue
        raise _contended()

    def _check_topic(self, topic: str) -> None:
        """What only brokers write must not become a queue, whatever the rights of the client are."""
        config = self._controller.config()
        if topic in INTERNAL or (config.audits and topic == config.tidelog_audit_topic):
            raise access_refused(f"topic '{topic}' is the brokers' own, and cannot be a queue")

    async def _create_topic(self, queue: AmqpQueue) -> None:
        spec = TopicSpec(queue.topic, partitions=1, configs=topic_settings(queue))
        if (count := partitions_of(queue)) > 1:
            # One broker leads them all: it knows which message is the next one.
            replicas = self._replicas(queue.topic)
            spec = spec._replace(partitions=-1, assignment=dict.fromkeys(range(count), replicas))
        (made,) = await self._controller.create_topics([spec])
        if isinstance(made, errors.TidelogError) and not isinstance(made, errors.TopicAlreadyExists):
            raise precondition_failed(f"no topic for queue '{queue.name}': {made}")

    def _replicas(self, topic: str) -> list[int]:
        brokers = [int(broker.node_id) for broker in self._controller.image.live_brokers]
        count = min(self._controller.config().default_replication_factor, len(brokers))
        first = int.from_bytes(hashlib.sha256(topic.encode()).digest()[:4], "big")
        return [brokers[(first + number) % len(brokers)] for number in range(count)]

    async def _adopt_topic(self, queue: AmqpQueue) -> None:
        """The topic keeps its own retention, and its other groups."""

        def changed(configs: Mapping[str, str]) -> dict[str, str]:
            groups = [group for group in configs.get(GROUPS, "").split(",") if group and group != queue.topic]
            own = {
                name: value
                for name, value in topic_settings(queue).items()
                if value is not None and not name.startswith("retention.")
            }
            return {**configs, **own, GROUPS: ",".join([*groups, queue.topic])}

        await self._controller.alter_topic_configs(queue.topic, changed)

    async def delete_queue(self, vhost_name: str, queue: AmqpQueue) -> bool:
        """False when the queue is gone already."""
        vhost, key = self._topology.vhost(vhost_name), queue_key(vhost_name, queue.name)
        for _ in range(TRIES_MAX):
            if vhost.queues.get(queue.name) != queue:
                return False
            bindings = vhost.bindings_of_destination(QUEUE, queue.name)
            await self._delete_keys(list(bindings)[: -self._most])
            rest = dict(list(bindings.items())[-self._most :])
            compare = [Compare(key, self._topology.revision_of(key))]
            active = Delete(active_key(vhost_name, queue.name))
            uses = DeletePrefix(use_prefix(vhost_name, queue.name))
            if await self._topology.change(compare, [Delete(key), active, uses, *map(Delete, rest)]):
                if not queue.adopted:
                    await self._controller.delete_topics([queue.topic])
                await self._unused(Declarer("", vhost_name, None), rest.values())
                return True
        raise _contended()

    async def end_of_homes(self, live: Collection[str]) -> int:
        """Deletes the queues of runs of brokers that are over; returns how many."""
        ended = [
            (name, queue)
            for name, vhost in self._topology.vhosts.items()
            for queue in vhost.queues.values()
            if queue.home and queue.home not in live
        ]
        return sum([await self.delete_queue(name, queue) for name, queue in ended])

    # Bindings

    async def bind(self, declarer: Declarer, binding: Binding) -> None:
        self._check_binding(declarer, binding)
        key = binding_key(declarer.vhost, binding)
        if key in self.vhost(declarer).bindings:
            return
        checks.check_arguments("a binding of", binding.source, binding.arguments)
        checks.check_count("binding", len(self.vhost(declarer).bindings), declarer.vhost)
        owners = [exchange_key(declarer.vhost, binding.source), self._destination_key(declarer, binding)]
        # Neither end may be deleted at the same time; predeclared exchanges have no key, and cannot be.
        compare = [Compare(owner, self._topology.revision_of(owner)) for owner in owners]
        for _ in range(TRIES_MAX):
            if await self._topology.change(compare, [Put(key, encode(binding))]):
                return
            self._check_binding(declarer, binding)
            compare = [Compare(owner, self._topology.revision_of(owner)) for owner in owners]
        raise _contended()

    def _destination_key(self, declarer: Declarer, binding: Binding) -> str:
        return (queue_key if binding.kind == QUEUE else exchange_key)(declarer.vhost, binding.destination)

    def _check_binding(self, declarer: Declarer, binding: Binding) -> None:
        if not binding.source or (binding.kind == EXCHANGE and not binding.destination):
            raise access_refused(checks.DEFAULT_EXCHANGE)
        if binding.kind == QUEUE:
            self.queue(declarer, binding.destination)
        else:
            self.exchange(declarer, binding.destination)
        source = self.exchange(declarer, binding.source)
        how = binding.arguments.get("x-match", "all")
        if source.kind == "headers" and how not in ("all", "any", "all-with-x", "any-with-x"):
            raise precondition_failed(
                f"Invalid x-match field value '{how}'; expected all, any, all-with-x, or any-with-x"
            )

    async def unbind(self, declarer: Declarer, binding: Binding) -> None:
        """A binding that is not there is no error."""
        if not binding.source:
            raise access_refused(checks.DEFAULT_EXCHANGE)
        key = binding_key(declarer.vhost, binding)
        if key in self.vhost(declarer).bindings:
            await self._topology.change([], [Delete(key)])
            await self._unused(declarer, [binding])

    async def _unused(self, declarer: Declarer, bindings: Iterable[Binding]) -> None:
        """Auto-delete exchanges end with their last binding."""
        vhost = self.vhost(declarer)
        for name in {binding.source for binding in bindings}:
            exchange = vhost.exchanges.get(name)
            if exchange is not None and exchange.auto_delete and not vhost.bindings_of_source(name):
                await self.delete_exchange(declarer, name, if_unused=False)


def _contended() -> ChannelFault:
    return precondition_failed("other connections keep changing the same names: try again")
