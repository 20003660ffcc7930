"""Offsets by time in remote storage: the manifest tells the segment, its side file the chunk, and one chunk is read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog._speed.log.batch import walk
from tidelog.errors import CorruptMessage
from tidelog.storage.fetched_log import CachedFile, NotHereYet
from tidelog.storage.log import Log
from tidelog.storage.offset_lookup import TimedOffset, first_record
from tidelog.storage.tiers.cold_log import ColdLog
from tidelog.storage.tiers.manifest import ColdSegment
from tidelog.storage.tiers.object_store import NoSuchObject, StoreProblem
from tidelog.storage.tiers.side_file import CorruptSideFile, SideFile


async def find_in_remote(log: Log, timestamp: int, newest: bool) -> TimedOffset | None:
    """The first record below the local segments that is not older than `timestamp`; with `newest`, the first one that has
    the largest timestamp of the log.  None: it is not there, so look into the local segments.  StoreProblem when the store
    does not answer."""
    cold = log.cold
    assert cold is not None
    manifest = cold.manifest or await cold.load()
    log.state.settle_start()
    local_start = log.local_start
    below = [each for each in manifest.segments if log.start < each.end and each.start < local_start]
    if newest:
        timestamp = max((segment.max_timestamp for segment in below), default=-1)
        if timestamp < 0 or any(segment.newest()[0] > timestamp for segment in log.segments):
            return None
    try:
        return await _search(cold, below, timestamp, log.start, local_start)
    except (NoSuchObject, CorruptSideFile, CorruptMessage) as problem:
        raise StoreProblem(str(problem)) from None


async def _search(
    cold: ColdLog, segments: Sequence[ColdSegment], timestamp: int, start: int, end: int
) -> TimedOffset | None:
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        side = await _side(cold, segment)
        for number, chunk in enumerate(side.chunks):
            if chunk.max_timestamp < timestamp or side.end_of(number, segment.end) <= start:
                continue
            file = await _chunk(cold, segment, side, number)
            first = await asyncio.to_thread(_first, file.read(chunk.size, 0), timestamp, start)
            if first is not None:
                # From here on the local segments know.
                return first if first.offset < end else None
    return None


async def _side(cold: ColdLog, segment: ColdSegment) -> SideFile:
    while isinstance(side := cold.reader.side(cold.folder, segment), NotHereYet):
        await asyncio.wait([side.ready])
    return side


async def _chunk(cold: ColdLog, segment: ColdSegment, side: SideFile, number: int) -> CachedFile:
    while isinstance(file := cold.reader.chunk(cold.folder, segment, side, number), NotHereYet):
        await asyncio.wait([file.ready])
    return file


def _first(data: bytes, timestamp: int, start: int) -> TimedOffset | None:
    for header in walk(data):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            record = first_record(data[header.position : header.position + header.size], timestamp, start)
            if record is not None:
                return TimedOffset(*record, header.leader_epoch)
    return None
