"""The topology of all virtual hosts as this broker knows it: follows the metadata store, and changes it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence

from tidelog import errors
from tidelog.gateways.amqp.topology.arguments import EXPIRES
from tidelog.gateways.amqp.topology.model import (
    ROOT,
    AmqpQueue,
    decode_binding,
    decode_exchange,
    decode_queue,
    split_key,
    unquoted,
)
from tidelog.gateways.amqp.topology.vhost import AmqpVhost
from tidelog.metadata.store import Compacted, Compare, MetadataStore, Operation, Snapshot, Unanswered

log = logging.getLogger("tidelog.amqp")

AGAIN_S = 0.5
EXCLUSIVE = b"exclusive"
ACTIVITY_MAX = 100_000


class TopologyStore:
    """`run` follows the store; `ready` is set once the topology was read."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._vhosts: dict[str, AmqpVhost] = {}
        self._revisions: dict[str, int] = {}
        self._revision = 0
        self._by_topic: dict[str, tuple[str, AmqpQueue]] = {}
        self._moved = asyncio.Event()
        self.ready = asyncio.Event()
        self.activity: deque[tuple[str, str]] = deque(maxlen=ACTIVITY_MAX)
        """Virtual hosts and queues whose single active consumer may be another one."""
        self.active_changed = asyncio.Event()
        self.operations_max = store.operations_max

    def vhost(self, name: str) -> AmqpVhost:
        """One without anything in it but what is predeclared, if nobody has declared anything."""
        vhost = self._vhosts.get(name)
        if vhost is None:
            vhost = self._vhosts[name] = AmqpVhost(name)
        return vhost

    @property
    def vhosts(self) -> dict[str, AmqpVhost]:
        return self._vhosts

    def of_topic(self, topic: str) -> tuple[str, AmqpQueue] | None:
        """The virtual host and the queue that the topic is."""
        return self._by_topic.get(topic)

    def expiring(self) -> Iterator[tuple[str, AmqpQueue]]:
        """The queues with `x-expires`, by virtual host."""
        return (named for named in self._by_topic.values() if EXPIRES in named[1].arguments)

    def revision_of(self, key: str) -> int:
        """For a comparison; 0: there is no such key."""
        return self._revisions.get(key, 0)

    async def change(self, compare: Sequence[Compare], then: Sequence[Operation]) -> bool:
        """False when a comparison did not hold.  Returns once this broker has applied the change, or what was there."""
        revision = await self._store.txn(compare, then)
        if revision is None:
            while all(self.revision_of(key) == revision for key, revision in compare):
                await self._wait()
            return False
        while self._revision < revision:
            await self._wait()
        return True

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(30):
                await self._moved.wait()
        except TimeoutError:
            raise errors.RequestTimedOut("the metadata store does not tell of changes") from None

    async def run(self) -> None:
        while True:
            try:
                snapshot = await self._store.range(ROOT)
            except Unanswered as problem:
                log.warning("the topology of AMQP cannot be read now: %s", problem)
                await asyncio.sleep(AGAIN_S)
                continue
            self._read(snapshot)
            self.ready.set()
            try:
                async for step in self._store.watch(ROOT, snapshot.revision + 1):
                    for key, value in step.changes:
                        self._apply(key, value, step.revision)
                    self._moved_to(step.revision)
            except Compacted:
                continue
            return

    def _read(self, snapshot: Snapshot) -> None:
        keys = {entry.key for entry in snapshot.entries}
        for gone in [key for key in self._revisions if key not in keys]:
            self._apply(gone, None, snapshot.revision)
        for entry in snapshot.entries:
            if self._revisions.get(entry.key) != entry.revision:
                self._apply(*entry)
        self._moved_to(snapshot.revision)

    def _moved_to(self, revision: int) -> None:
        self._revision = revision
        self._moved.set()
        self._moved = asyncio.Event()

    def _apply(self, key: str, value: bytes | None, revision: int) -> None:
        if value is None:
            self._revisions.pop(key, None)
        else:
            self._revisions[key] = revision
        name, kind, rest = split_key(key)
        vhost = self.vhost(name)
        if kind == "exchange":
            if value is None:
                vhost.remove_exchange(unquoted(rest))
            else:
                vhost.put_exchange(decode_exchange(value))
        elif kind == "queue":
            before = vhost.queues.pop(unquoted(rest), None)
            if before is not None:
                self._by_topic.pop(before.topic, None)
            if value is not None:
                queue = decode_queue(value)
                vhost.queues[queue.name] = queue
                self._by_topic[queue.topic] = name, queue
        elif kind == "active":
            if value is None:
                vhost.active.pop(unquoted(rest), None)
            else:
                vhost.active[unquoted(rest)] = value.decode()
            self.activity.append((name, unquoted(rest)))
            self.active_changed.set()
        elif kind == "use":
            queue_name, _, home = rest.partition("/")
            homes = vhost.uses.setdefault(unquoted(queue_name), {})
            if value is None:
                homes.pop(home, None)
            else:
                homes[home] = value == EXCLUSIVE
            if not homes:
                del vhost.uses[unquoted(queue_name)]
        elif kind == "binding":
            if value is None:
                vhost.remove_binding(key)
            else:
                vhost.put_binding(key, decode_binding(value))
