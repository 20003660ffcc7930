"""What a broker stores in the metadata after an unclean restart, before it follows the metadata and registers.

The broker reports which of its replicas are in doubt, and takes a new leader epoch for the partitions that it leads.  The
order matters: first no other process runs under this broker's id (`await_place`), then the registration of the earlier
process is removed, so that no ISR change in progress can count on it, then the doubts are stored, then the broker
registers.  Called by `app.lifecycle`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from tidelog import errors
from tidelog.metadata import records
from tidelog.metadata.elections import replica_doubts
from tidelog.metadata.elections.elections import NextState
from tidelog.metadata.elections.replica_doubts import ReplicaCondition
from tidelog.metadata.image import changes
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage
from tidelog.metadata.store import ABSENT, Compare, Delete, MetadataStore, Put
from tidelog.types import NodeId

TRIES_MAX = 20

Look = Callable[[TopicImage, PartitionImage], ReplicaCondition]


async def known_directories(store: MetadataStore, node: NodeId) -> frozenset[str] | None:
    """The ids of the log directories that this broker has registered before; None if it has never registered any."""
    entry = await store.get(records.directories_key(node))
    return None if entry is None else records.decode_directories(entry.value)


async def remember_directories(
    store: MetadataStore, node: NodeId, ids: Collection[str], forget_others: bool
) -> None:
    """Called after the doubts are stored: from here on these directories are not new.  `forget_others`: directories that
    are missing now count as new when they return."""
    key = records.directories_key(node)
    for _ in range(TRIES_MAX):
        entry = await store.get(key)
        before = frozenset() if entry is None else records.decode_directories(entry.value)
        after = frozenset(ids) if forget_others else before.union(ids)
        if before == after:
            return
        revision = ABSENT if entry is None else entry.revision
        put = Put(key, records.encode_directories(after))
        if await store.txn([Compare(key, revision)], [put]) is not None:
            return
    raise errors.RequestTimedOut(
        f"Broker {node} cannot store its report: other brokers keep changing the same metadata. Start the broker again."
    )


async def report(
    store: MetadataStore, node: NodeId, look: Look, unclean: bool, at_risk: bool, rolled_back: bool = False
) -> None:
    """Stores the report on every partition that `node` holds; `look` returns the condition of a replica.
    `at_risk`: replicas may be in doubt that are in no ISR yet, but whose leader is about to let them join.
    `rolled_back`: the store is older than what this broker has seen of it, so the in-sync replicas are unknown."""
    if at_risk:
        await _vacate(store, node)
    reported: set[str] = set()
    for _ in range(TRIES_MAX):
        image = changes.read(await store.range(""))
        due = _rolled_back(image, node, look) if rolled_back else _states(image, node, look, unclean)
        states = [state for state in due if _key(state) not in reported]
        if not states:
            return
        if not at_risk and any(tail.node == node for state in states for tail in state.record.doubts):
            at_risk = True
            await _vacate(store, node)
            continue
        reported.update(map(_key, await _write(store, states)))
    raise errors.RequestTimedOut(
        f"Broker {node} cannot store its report: other brokers keep changing the same metadata. Start the broker again."
    )


def _states(image: Image, node: NodeId, look: Look, unclean: bool) -> Iterator[NextState]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            if node not in (partition.replicas if partition.rolled_back else partition.holders):
                continue
            record = replica_doubts.restarted(partition, node, look(topic, partition), unclean)
            if record is not None:
                yield NextState(topic.id, partition.index, record, partition.revision)


def _rolled_back(image: Image, node: NodeId, look: Look) -> Iterator[NextState]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            if node not in partition.replicas:
                continue
            _, reach, last_epoch = look(topic, partition)
            record = replica_doubts.rolled_back(partition, node, reach, last_epoch, certain=True)
            if record is not None:
                yield NextState(topic.id, partition.index, record, partition.revision)


async def _vacate(store: MetadataStore, node: NodeId) -> None:
    """Removes the registration of an earlier process of this broker.  A leader's change that lets that process join an
    in-sync set compares the registration, and fails from here on."""
    place, control = await store.get(records.broker_key(node)), await store.get(records.CONTROLLER)
    if place is None:
        return
    entries = [place]
    if control is not None and control.value == b"%d" % node:
        entries.append(control)
    await store.txn(
        [Compare(entry.key, entry.revision) for entry in entries], [Delete(entry.key) for entry in entries]
    )


async def _write(store: MetadataStore, states: Sequence[NextState]) -> list[NextState]:
    """Returns the states that were stored."""
    written: list[NextState] = []
    for at in range(0, len(states), store.operations_max):
        batch = states[at : at + store.operations_max]
        if await _swap(store, batch):
            written += batch
        else:
            # Another broker has changed one of the states meanwhile: the others are stored one by one.
            written += [state for state in batch if await _swap(store, [state])]
    return written


async def _swap(store: MetadataStore, states: Sequence[NextState]) -> bool:
    compare = [Compare(_key(state), state.revision) for state in states]
    then = [records.put_partition(state.topic_id, state.index, state.record) for state in states]
    return await store.txn(compare, then) is not None


def _key(state: NextState) -> str:
    return records.partition_key(state.topic_id, state.index)
