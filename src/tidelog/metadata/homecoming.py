"""What a broker changes in the metadata when it comes back, before it follows them and before it is registered.

Nothing here needs to be the newest state of anything: a swap that fails means that somebody knew better, and what is
still due is looked for again.  Called by `app.lifecycle` once the broker's place is its own (`registration`)."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import errors
from tidelog.metadata import changes, decisions, records
from tidelog.metadata.decisions import Raised
from tidelog.metadata.image import Image
from tidelog.metadata.records import Tail
from tidelog.metadata.store import Compare, MetadataStore
from tidelog.types import NodeId, TopicPartition

TRIES_MAX = 20


async def raise_epochs(store: MetadataStore, node: NodeId) -> None:
    """After a stop that was not clean: what `node` leads it leads in new epochs."""
    await _write(store, list(decisions.raise_epochs(await _read(store), node)))


async def own_up(store: MetadataStore, tails: Sequence[tuple[TopicPartition, Tail]]) -> None:
    """After a power cut: these replicas may have lost the ends of their logs, and all of them say so."""
    for _ in range(TRIES_MAX):
        states = list(decisions.unsure(await _read(store), tails))
        if not states:
            return
        await _write(store, states)
    raise errors.RequestTimedOut("others keep changing the same metadata: start again")


async def _read(store: MetadataStore) -> Image:
    return changes.read(await store.range(""))


async def _write(store: MetadataStore, states: Sequence[Raised]) -> None:
    for at in range(0, len(states), store.operations_max):
        some = states[at : at + store.operations_max]
        if await _swap(store, some) is None:
            # Somebody has changed one of them meanwhile: the others go one by one.
            for one in some:
                await _swap(store, [one])


async def _swap(store: MetadataStore, states: Sequence[Raised]) -> int | None:
    compare = [Compare(records.partition_key(one.topic_id, one.index), one.revision) for one in states]
    return await store.txn(
        compare, [records.put_partition(one.topic_id, one.index, one.record) for one in states]
    )
