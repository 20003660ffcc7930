"""What a backup asks of each broker, in fields of our own of DescribeCluster: where every partition that this broker leads
starts and ends at one moment, and the entries of the metadata store.

The brokers of a cluster answer for the same moment.  Each holds its event loop from `hold_ms` before the moment to `hold_ms`
after it, and reads its ends at the moment.  If their clocks differ by less, all are held while the last of them reads: no
record below an end can have followed from a record at or above another end.  A cluster of one broker needs no hold: the ends
are read in one go."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.metadata import records
from tidelog.metadata.access import access_records
from tidelog.wire.acls import AclOperation
from tidelog.wire.messages.describe_cluster import (
    BackupEpoch,
    BackupPartition,
    BackupTopic,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataEntry,
)

if TYPE_CHECKING:
    from tidelog.broker.services import Services

WAIT_MS_MAX = 10_000
HOLD_MS_MAX = 250
_TURN = 50
# What belongs to the brokers that run now, and what no other cluster may have: with the secret, brokers of a copy could pass
# themselves off as brokers of this cluster.  Delegation tokens are worth nothing without it.
_NOT_COPIED = (
    records.BROKERS,
    records.CONTROLLER,
    records.DIRECTORIES,
    records.TENANT_USAGE,
    access_records.SECRET,
    access_records.TOKENS,
)


async def add_backup_cut(
    request: DescribeClusterRequest, response: DescribeClusterResponse, context: Context
) -> None:
    """`request.backup_cut_ms`: the moment, by this broker's clock; 0: now."""
    services = context.services
    context.check_cluster(AclOperation.CLUSTER_ACTION)
    at_ms, hold_ms = request.backup_cut_ms, request.backup_hold_ms
    now_ms = services.clock.now_ms()
    if not 0 <= hold_ms <= HOLD_MS_MAX or (at_ms and not hold_ms <= at_ms - now_ms <= WAIT_MS_MAX):
        raise errors.InvalidRequest(
            f"a cut at {at_ms} with a hold of {hold_ms} ms is not possible: it is {now_ms}, a cut lies at most "
            f"{WAIT_MS_MAX} ms ahead, and a hold takes at most {HOLD_MS_MAX} ms"
        )
    await _open_logs(services, request.backup_roll_bytes)
    if at_ms:
        await asyncio.sleep(max(0, at_ms - hold_ms - services.clock.now_ms()) / 1000)
    response.cut_began_ms = services.clock.now_ms()
    _hold_until(at_ms, services)
    response.backup_topics = _ends(services)
    if at_ms:
        _hold_until(at_ms + hold_ms, services)
    response.cut_ended_ms = services.clock.now_ms()
    if request.include_metadata:
        entries = (await services.controller.store.range("")).entries
        response.metadata_entries = [
            MetadataEntry(entry.key, entry.value)
            for entry in entries
            if not entry.key.startswith(_NOT_COPIED)
        ]


def _hold_until(time_ms: int, services: Services) -> None:
    """Nothing else runs on this thread meanwhile: that is the purpose."""
    time.sleep(min(max(0, time_ms - services.clock.now_ms()), 2 * HOLD_MS_MAX) / 1000)


async def _open_logs(services: Services, roll_bytes: int) -> None:
    """Before the hold: opening a log reads its folder.  Segments of at least `roll_bytes` are sealed, for a fork that shares
    them; -1: none."""
    count = 0
    for name, topic in list(services.image().topics.items()):
        for partition in topic.partitions:
            if partition.leader == services.node_id:
                log = services.partitions.led_here(name, partition.index).log
                if 0 <= roll_bytes <= log.segments.last.size:
                    log.roller.roll()
                count += 1
                if count % _TURN == 0:
                    await asyncio.sleep(0)


def _ends(services: Services) -> list[BackupTopic]:
    topics = []
    for name, topic in services.image().topics.items():
        described = BackupTopic(topic_id=topic.id, name=name)
        for image in topic.partitions:
            if image.leader != services.node_id:
                continue
            try:
                partition = services.partitions.led_here(name, image.index)
            except errors.NotLeaderOrFollower:
                continue  # leadership is on its way here: who asks sees that the partition is missing, and asks again
            if not partition.state.knows_committed:
                continue
            epochs = [BackupEpoch(epoch, start) for epoch, start in partition.log.epochs]
            described.partitions.append(
                BackupPartition(image.index, partition.log.start, partition.state.committed, epochs)
            )
        if described.partitions:
            topics.append(described)
    return topics
