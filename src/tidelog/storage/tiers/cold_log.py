"""The part of one partition's log that is in the object store: its manifest, and reads of what is not local any more.

`read` runs on the event loop and never waits: it gives records from the cache, or word that they are on their way.
`change` is how a leader copies and deletes: it writes the next manifest, and the segments that it names are all there.
Used by `Reader` and `Cutter`, and by `replication.tiering`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog._speed.log.batch import HEADER_SIZE, Header, find, header_at, walk
from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.storage.fetched_log import CachedFile, ColdRecords, NotHereYet
from tidelog.storage.tiers.manifest import ColdSegment, Manifest
from tidelog.storage.tiers.manifest_chain import ManifestChain, Outrun
from tidelog.storage.tiers.object_store import NoSuchObject, StoreProblem
from tidelog.storage.tiers.remote_reader import PAUSE_S, RemoteReader
from tidelog.storage.tiers.side_file import CorruptSideFile, SideFile
from tidelog.types import TopicPartition

logger = logging.getLogger("tidelog.tiers")

REMOTE_SEEN = "remote-storage"  # a file in a log's folder
_ATTEMPTS_MAX = 5
_RECENT_MAX = 64


class Fenced(Exception):
    """A leader of a newer epoch writes the manifests now."""


class ColdLog:
    def __init__(
        self, name: TopicPartition, empty: Manifest, chain: ManifestChain, reader: RemoteReader
    ) -> None:
        """`empty`: the manifest of a partition of which nothing was ever copied."""
        self.name = name
        self.chain = chain
        self.reader = reader
        self.manifest: Manifest | None = None
        """As it was when it was last read or written; None: not read yet."""
        self.seen = False
        """The log's folder says that there is a manifest: a store without one is not the store that was copied to."""
        self._empty = empty
        self._writing = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        self._looked_for: set[str] = set()
        """Segments whose objects were missing, and the manifest was read again since."""
        self._recent: dict[
            int, tuple[str, int, int]
        ] = {}  # where reads went on lately: segment, chunk, position

    @property
    def folder(self) -> str:
        return self.chain.folder

    @property
    def end(self) -> int | None:
        """Everything below is copied, for certain; None when nothing is, or that is not known."""
        return None if self.manifest is None else self.manifest.end

    @property
    def size(self) -> int:
        return 0 if self.manifest is None else self.manifest.size

    # The manifest

    async def load(self) -> Manifest:
        """The newest manifest.  StoreProblem when the store cannot be read."""
        newest = await self._newest()
        if self.manifest is None or newest.number >= self.manifest.number:
            self.manifest = newest
        return self.manifest

    async def _newest(self) -> Manifest:
        newest = await self.chain.newest()
        known = 0 if self.manifest is None else self.manifest.number
        if (newest is None and self.seen) or (newest is not None and newest.number < known):
            raise StoreProblem(
                f"{self.name} has manifests in remote storage up to {known or 'some number'}, and this store has "
                f"{'none' if newest is None else newest.number}: it is not the store that was copied to, or has lost objects"
            )
        return newest or self._empty

    async def change(
        self, leader_epoch: int, log_start: int, change: Callable[[Manifest], Manifest]
    ) -> Manifest:
        """Writes what `change` makes of the newest manifest.  Fenced when a newer leader has written."""
        async with self._writing:
            for _ in range(_ATTEMPTS_MAX):
                newest = self.manifest or await self.load()
                if newest.leader_epoch > leader_epoch:
                    raise Fenced(f"{self.name}: leader epoch {newest.leader_epoch} copies now")
                changed = change(newest).following(leader_epoch, log_start)
                try:
                    await self.chain.write(changed)
                except Outrun:
                    await self.load()
                    continue
                except StoreProblem:
                    self.manifest = None  # it may have been written all the same
                    raise
                self.manifest = changed
                return changed
        raise StoreProblem(f"{self.name}: others write manifests all the time")

    def begin_load(self) -> NotHereYet:
        """Reads the manifest, if nobody does so already."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._load())
        return NotHereYet(self._loading, remote=True)

    async def _load(self) -> None:
        try:
            await self.load()
        except StoreProblem as problem:
            logger.warning("%s: what is in remote storage is not known: %s", self.name, problem)
            await asyncio.sleep(PAUSE_S)

    # Reading

    def read(
        self, offset: int, bytes_max: int, bound: int, whole_batch: bool = True
    ) -> ColdRecords | NotHereYet | int | None:
        """As `Log.fetch` with the end `bound`, of what is below the local segments.  A number: there are no batches from
        `offset` up to there."""
        manifest = self.manifest
        if manifest is None:
            return self.begin_load()
        number = manifest.holding(offset)
        if number is None:
            start = manifest.start
            if start is not None and offset < start:
                raise OffsetOutOfRange(
                    f"{self.name} has no records at {offset} any more: remote storage starts at {start}"
                )
            raise KafkaStorageError(f"{self.name} has no copy of offset {offset} in remote storage")
        segment = manifest.segments[number]
        try:
            return self._read_segment(segment, offset, bytes_max, bound, whole_batch)
        except NoSuchObject as problem:
            # Another broker may have deleted it; then the newest manifest knows.
            if segment.name in self._looked_for:
                raise KafkaStorageError(f"{self.name}: {problem}") from None
            self._looked_for.add(segment.name)
            return self.begin_load()
        except CorruptSideFile as problem:
            raise CorruptMessage(f"{self.name}: {problem}") from None

    def _read_segment(
        self, segment: ColdSegment, offset: int, bytes_max: int, bound: int, whole_batch: bool
    ) -> ColdRecords | NotHereYet | int | None:
        side = self.reader.side(self.folder, segment)
        if isinstance(side, NotHereYet):
            return side
        recent = self._recent.get(offset)
        if recent is not None and recent[0] == segment.name:
            _, number, position = recent
        else:
            number, position = side.chunk_holding(offset), -1
        while number < len(side.chunks):
            file = self.reader.chunk(self.folder, segment, side, number)
            if isinstance(file, NotHereYet):
                return file
            if position < 0:
                data = file.read(side.chunks[number].size, 0)
                position, header = find(data, offset)
                if header is None:  # all of the chunk is before it: compaction left a gap
                    number, position = number + 1, -1
                    continue
            return self._cut(segment, side, number, file, position, bytes_max, bound, whole_batch)
        return segment.end

    def _cut(
        self,
        segment: ColdSegment,
        side: SideFile,
        number: int,
        file: CachedFile,
        position: int,
        bytes_max: int,
        bound: int,
        whole_batch: bool,
    ) -> ColdRecords | None:
        end, size = side.end_of(number, segment.end), side.chunks[number].size - position
        if size <= bytes_max and end <= bound:
            first = header_at(file.read(HEADER_SIZE, position))
            start = segment.start if first is None else first.base_offset
            self._remember(end, (segment.name, number + 1, 0))
            return ColdRecords(file, position, size, end, side.aborted_between(start, end))
        headers = walk(file.read(size, position))
        below = [header for header in headers if header.last_offset < bound]
        if not below or (below[0].size > bytes_max and not whole_batch):
            return None
        whole = _fitting(below, bytes_max)
        stop = whole[-1].position + whole[-1].size
        end = whole[-1].last_offset + 1
        rest = side.chunks[number].size - position - stop
        self._remember(
            end, (segment.name, number, position + stop) if rest else (segment.name, number + 1, 0)
        )
        return ColdRecords(file, position, stop, end, side.aborted_between(below[0].base_offset, end))

    def _remember(self, offset: int, place: tuple[str, int, int]) -> None:
        self._recent.pop(offset, None)
        self._recent[offset] = place
        while len(self._recent) > _RECENT_MAX:
            del self._recent[next(iter(self._recent))]


def _fitting(headers: list[Header], bytes_max: int) -> list[Header]:
    """The batches that are whole within the bound, and the first one in any case."""
    count = 1
    while count < len(headers) and headers[count].position + headers[count].size <= bytes_max:
        count += 1
    return headers[:count]
