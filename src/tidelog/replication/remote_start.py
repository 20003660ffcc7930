"""How a follower starts that asked for records its leader has in remote storage only: it takes leader epochs and producers
from there, and fetches what the leader still has on its disk."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tidelog import errors
from tidelog._speed.log.crc32c import crc32c
from tidelog.replication.partition import HostedPartition
from tidelog.storage.log_state import RemotePart
from tidelog.storage.tiers.manifest import ColdSegment
from tidelog.storage.tiers.object_store import StoreProblem
from tidelog.storage.tiers.side_file import CorruptSideFile, SideFile, decode
from tidelog.types import Offset

log = logging.getLogger("tidelog.follower")


async def start_from_remote(
    partition: HostedPartition, log_start: int, leader_local_start: int, from_last: bool
) -> bool:
    """Begins the replica anew at the leader's first local record, or with `from_last` where remote storage ends.  False:
    the leadership changed meanwhile, and nothing was done.  KafkaStorageError: remote storage does not tell now."""
    cold = partition.log.cold
    if cold is None:
        raise errors.KafkaStorageError(
            "the leader has older records in remote storage, and this broker has none"
        )
    epoch, end = partition.state.epoch, partition.log.end
    try:
        manifest = await cold.load()
        fitting = [segment for segment in manifest.segments if segment.end >= leader_local_start]
        if not fitting:
            raise errors.KafkaStorageError(
                f"remote storage ends at {manifest.end}, and the leader has nothing before {leader_local_start}"
            )
        segment = fitting[-1] if from_last else fitting[0]
        side = await _side(cold.folder, segment, cold.chain.store.get)
    except (StoreProblem, CorruptSideFile) as problem:
        raise errors.KafkaStorageError(str(problem)) from None
    if partition.state.epoch != epoch or partition.leader == partition.state.node or partition.log.end != end:
        return False
    start = max(log_start, manifest.start or 0)
    log.info("%s begins anew at offset %d: all before is in remote storage", partition.name, segment.end)
    partition.restart_at(Offset(segment.end), RemotePart(start, side.epochs, side.producers))
    return True


async def _side(folder: str, segment: ColdSegment, get: Callable[[str], Awaitable[bytes]]) -> SideFile:
    data = await get(f"{folder}/segments/{segment.name}.side")
    if crc32c(data) != segment.side_crc:
        raise CorruptSideFile(f"{folder}/segments/{segment.name}.side has another checksum")
    return decode(data)
