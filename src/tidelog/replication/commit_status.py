"""The state of an append: committed (on all in-sync replicas), not yet committed, or for another leader to decide.

Another leader may give an offset to another record, so an offset and an epoch together name a record."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tidelog import errors
from tidelog.types import Offset

if TYPE_CHECKING:
    from tidelog.replication.partition import HostedPartition


class Appended(NamedTuple):
    """`end` is past the last record; `durable` is set while the topic's own sync is under way."""

    base: Offset
    end: Offset
    append_time_ms: int
    durable: asyncio.Future[None] | None
    epoch: int


def appended_before(
    partition: HostedPartition, base: int, end: int, durable: asyncio.Future[None] | None
) -> Appended:
    """An earlier append, up to `end`."""
    return Appended(Offset(base), Offset(end), -1, durable, partition.log.epochs.of(end - 1))


def is_committed(partition: HostedPartition, appended: Appended) -> bool:
    """True if all replicas that count have these records, and not another leader's at the same offsets."""
    end, log = appended.end, partition.log
    return partition.state.committed >= end and (
        appended.epoch == log.epochs.of(end - 1) or end <= log.start  # deleted meanwhile
    )


def moved(partition: HostedPartition, appended: Appended) -> bool:
    """True if another leader decides whether the append is committed."""
    return (
        partition.leader != partition.state.node
        or appended.epoch != partition.log.epochs.of(appended.end - 1)
    )  # fmt: skip


def when_committed(partition: HostedPartition, appended: Appended) -> asyncio.Future[None]:
    """Done when the append is committed; fails when another broker leads."""
    if not moved(partition, appended):
        return partition.commit_waits.wait(appended.end)
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(not_led(partition))
    return failed


async def committed_within(partition: HostedPartition, appended: Appended, timeout_ms: int) -> None:
    """Returns when the append is synced and committed; raises RequestTimedOut if that takes longer."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            if appended.durable is not None:
                await asyncio.shield(appended.durable)
            if not is_committed(partition, appended):
                await when_committed(partition, appended)
    except TimeoutError:
        raise errors.RequestTimedOut(
            f"{partition.name}: the batch is not on all in-sync replicas yet"
        ) from None


def not_led(partition: HostedPartition) -> errors.TidelogError:
    return errors.NotLeaderOrFollower(f"{partition.name} is led by broker {partition.leader} now")


def too_few(partition: HostedPartition) -> str:
    in_sync, required = len(partition.state.in_sync), partition.log.config.min_insync_replicas
    return f"{partition.name} has {in_sync} in-sync replicas, min.insync.replicas is {required}"
