"""Reads over the boundary between local segments and remote ones: the same records as without remote storage."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from tests.unit.storage.making import FOLDER, NAME, HandClock, append, batch, make_volume, open_log
from tests.unit.storage.tiers.memory_store import MemoryStore
from tidelog._speed.log.batch import walk
from tidelog._speed.log.crc32c import crc32c
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, OffsetOutOfRange
from tidelog.storage import checkpoints
from tidelog.storage.fetched_log import fetch_bytes
from tidelog.storage.log import Log
from tidelog.storage.tiers import manifest as manifests
from tidelog.storage.tiers import remote_reader
from tidelog.storage.tiers.chunk_cache import ChunkCache
from tidelog.storage.tiers.manifest import ColdSegment
from tidelog.storage.tiers.remote_reader import ReadLimits, RemoteReader
from tidelog.storage.tiers.segment_copy import SealedSource, SegmentCopy
from tidelog.storage.tiers.tiers import Tiers

TOPIC_ID = UUID(int=7)
LIMITS = ReadLimits(at_once=4, waiting_max=10, ahead_bytes=1 << 20, side_bytes=1 << 20, fetch_rate=1 << 62)
CONFIG = TopicConfig(
    remote_storage_enable=True, segment_bytes=3000, local_retention_bytes=0, file_delete_delay_ms=0
)


class TieredLog:
    """A log whose sealed segments are copied by hand, and the same batches in a list."""

    def __init__(self, limits: ReadLimits = LIMITS) -> None:
        self.store = MemoryStore()
        self.volume = make_volume()
        self.limits = limits
        disk = self.volume.disk
        self.cache = ChunkCache(disk, "/data/remote-cache", lambda: 1 << 20)
        self.reader = RemoteReader(self.store, self.cache, HandClock(), lambda: self.limits)
        self.volume.tiers = Tiers(self.store, self.reader, "cluster")
        disk.make_folder(FOLDER)
        metadata = disk.open(f"{FOLDER}/{checkpoints.PARTITION_METADATA}", create=True)
        metadata.write(checkpoints.encode_topic_id(TOPIC_ID), 0)
        self.log = open_log(self.volume, CONFIG)
        self.batches: list[bytes] = []

    def fill(self, count: int, random: Random) -> None:
        for _ in range(count):
            data = batch(self.log.next, random.randint(1, 5), value=random.randbytes(random.randint(1, 400)))
            append(self.log, data)
            self.batches.append(data)

    async def copy(self) -> None:
        """All sealed segments."""
        log, cold = self.log, self.log.cold
        assert cold is not None
        manifest = cold.manifest or await cold.load()
        for segment in list(log.segments)[:-1]:
            copied = manifest.end or 0
            if segment.end <= copied:
                continue
            position = 0 if copied <= segment.base else segment.locate(copied)[0]
            start = max(copied, segment.base)
            copy = SegmentCopy(
                SealedSource(
                    self.volume.disk,
                    FOLDER,
                    segment.files,
                    start,
                    segment.end,
                    position,
                    segment.size - position,
                    segment.newest()[0],
                    log.aborted(start, segment.end),
                    list(log.epochs),
                )
            )
            name = manifests.segment_name(start, segment.end, 1, f"{start:x}")
            await self.store.put(f"{cold.folder}/segments/{name}.log", copy.pieces())
            side = (await copy.side_file()).encode()
            await self.store.create(f"{cold.folder}/segments/{name}.side", side)
            entry = ColdSegment(
                start,
                segment.end,
                name,
                segment.size - position,
                segment.newest()[0],
                len(side),
                crc32c(side),
                0,
            )
            manifest = await cold.change(1, log.start, lambda newest, entry=entry: newest.with_copied(entry))  # type: ignore[misc]
        cold.seen = True

    def drop_local(self) -> None:
        """All local segments that are copied."""
        self.log.cutter.apply_retention(self.log.end)

    def expected(self, offset: int) -> bytes:
        return b"".join(data for data in self.batches if walk(data)[0].last_offset >= offset)

    async def read(self, offset: int, bytes_max: int = 1 << 20) -> bytes:
        """To the end, in as many reads as it takes."""
        pieces = []
        while offset < self.log.end:
            data = await fetch_bytes(self.log, offset, bytes_max, self.log.end)
            assert data
            whole = walk(data)
            pieces.append(data[: whole[-1].position + whole[-1].size])
            offset = whole[-1].last_offset + 1
        return b"".join(pieces)


@pytest.fixture
def tiered(monkeypatch: pytest.MonkeyPatch) -> TieredLog:
    monkeypatch.setattr(remote_reader, "PAUSE_S", 0.01)
    monkeypatch.setattr("tidelog.storage.tiers.segment_copy.CHUNK_BYTES", 700)
    return TieredLog()


@pytest.mark.parametrize("seed", range(8))
async def test_any_read_gives_the_same_batches_as_without_remote_storage(
    tiered: TieredLog, seed: int
) -> None:
    random = Random(seed)
    for _ in range(4):
        tiered.fill(random.randint(5, 40), random)
        if random.random() < 0.8:
            await tiered.copy()
        if random.random() < 0.7:
            tiered.drop_local()
        for _ in range(5):
            offset = random.randrange(tiered.log.end)
            bytes_max = random.choice([1, 500, 2000, 1 << 20])
            assert await tiered.read(offset, bytes_max) == tiered.expected(offset)
    await tiered.copy()
    tiered.drop_local()
    assert tiered.log.local_start > 0 and tiered.log.start == 0
    reopened = Log.open(tiered.volume, FOLDER, NAME, CONFIG, 0, 0)
    assert (reopened.start, reopened.local_start) == (0, tiered.log.local_start)


async def test_a_bound_holds_in_remote_segments_too(tiered: TieredLog) -> None:
    tiered.fill(40, Random(1))
    await tiered.copy()
    tiered.drop_local()
    third, pieces, offset = walk(tiered.batches[2])[0], [], 0
    while (data := await fetch_bytes(tiered.log, offset, 1 << 20, third.last_offset)) is not None:
        pieces.append(data)
        offset = walk(data)[-1].last_offset + 1
    assert b"".join(pieces) == b"".join(tiered.batches[:2])


async def test_many_readers_of_one_range_cause_one_request(tiered: TieredLog) -> None:
    tiered.fill(20, Random(1))
    await tiered.copy()
    tiered.drop_local()
    await tiered.read(0, 500)
    sides, ranges = tiered.store.counted("get"), tiered.store.counted("get_range")
    again = TieredLog()
    again.store.objects, again.batches = tiered.store.objects, tiered.batches
    again.store.requests.clear()
    again.log = tiered.log
    cold = tiered.log.cold
    assert cold is not None
    cold.reader = again.reader
    assert set(await asyncio.gather(*(tiered.read(0, 500) for _ in range(20)))) == {tiered.expected(0)}
    assert again.store.counted("get") <= sides
    assert again.store.counted("get_range") <= ranges


async def test_a_store_that_fails_is_asked_again_and_delays_no_local_read(tiered: TieredLog) -> None:
    tiered.fill(40, Random(1))
    await tiered.copy()
    tiered.drop_local()
    tiered.store.fails = lambda kind, name: kind == "get_range"
    reading = asyncio.ensure_future(tiered.read(0))
    local = tiered.log.local_start
    assert await tiered.read(local) == tiered.expected(local)
    while tiered.reader.counters.errors < 2:
        await asyncio.sleep(0.01)
    assert not reading.done()
    tiered.store.fails = lambda kind, name: False
    assert await reading == tiered.expected(0)


@pytest.mark.parametrize("kind", [".log", ".side"])
async def test_other_bytes_than_were_written_are_told(tiered: TieredLog, kind: str) -> None:
    tiered.fill(40, Random(1))
    await tiered.copy()
    tiered.drop_local()
    name = min(name for name in tiered.store.objects if name.endswith(kind))
    data = bytearray(tiered.store.objects[name])
    data[len(data) // 2] ^= 1
    tiered.store.objects[name] = bytes(data)
    with pytest.raises(CorruptMessage):
        await tiered.read(0)
    cold = tiered.log.cold
    assert cold is not None and cold.manifest is not None
    behind = cold.manifest.segments[1].start
    assert await tiered.read(behind) == tiered.expected(behind)


async def test_what_another_broker_deleted_is_out_of_range(tiered: TieredLog) -> None:
    tiered.fill(40, Random(1))
    await tiered.copy()
    tiered.drop_local()
    other = TieredLog()
    other.store.objects = tiered.store.objects
    other_tiers = Tiers(other.store, other.reader, "cluster")
    theirs = other_tiers.log(NAME, TOPIC_ID)
    await theirs.load()
    start = (await theirs.change(2, 0, lambda newest: newest.without_first(1))).start
    assert start is not None
    gone = min(name for name in tiered.store.objects if name.endswith(".log"))
    del tiered.store.objects[gone]
    with pytest.raises(OffsetOutOfRange):
        await tiered.read(0)
    assert tiered.log.start == start
    assert await tiered.read(start) == tiered.expected(start)
