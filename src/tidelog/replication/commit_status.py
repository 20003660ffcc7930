"""Whether an append is committed: replicated to the in-sync set, not yet, or only another leader can tell.

An offset can be given to another record by another leader; offset and epoch together name one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tidelog import errors
from tidelog.types import Offset

if TYPE_CHECKING:
    from tidelog.replication.partition import HostedPartition


class Appended(NamedTuple):
    """`end` is past the last record; `durable` is there while the topic's own sync is under way."""

    base: Offset
    end: Offset
    append_time_ms: int
    durable: asyncio.Future[None] | None
    epoch: int


def appended_before(
    partition: HostedPartition, base: int, end: int, durable: asyncio.Future[None] | None
) -> Appended:
    """What was appended before."""
    return Appended(Offset(base), Offset(end), -1, durable, partition.log.epochs.of(end - 1))


def is_committed(partition: HostedPartition, appended: Appended) -> bool:
    """Whether all replicas that count have it: these records, not those that another leader has put there."""
    end, log = appended.end, partition.log
    return partition.state.committed >= end and (
        appended.epoch == log.epochs.of(end - 1) or end <= log.start  # deleted meanwhile
    )


def moved(partition: HostedPartition, appended: Appended) -> bool:
    """It is another leader's to say what becomes of it."""
    return (
        partition.leader != partition.state.node
        or appended.epoch != partition.log.epochs.of(appended.end - 1)
    )  # fmt: skip


def when_committed(partition: HostedPartition, appended: Appended) -> asyncio.Future[None]:
    """Done when it is; fails when another broker leads."""
    if not moved(partition, appended):
        return partition.commit_waits.wait(appended.end)
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(not_led(partition))
    return failed


def not_led(partition: HostedPartition) -> errors.TidelogError:
    return errors.NotLeaderOrFollower(f"{partition.name} is led by broker {partition.leader} now")


def too_few(partition: HostedPartition) -> str:
    in_sync, required = len(partition.state.in_sync), partition.log.config.min_insync_replicas
    return f"{partition.name} has {in_sync} in-sync replicas, min.insync.replicas is {required}"
