"""Takes a log to another directory while it is used: copy, catch up, and change places in one step.

The copy grows in a folder that ends in `-future`, which the next start removes, so a move that is interrupted never
happened.  `LogDirs.move` makes one; `replication.partition` owns the log that is swapped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

from tidelog._speed.log.batch import HEADER_SIZE, Header, crc_ok, header_at, walk
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage import checkpoints
from tidelog.storage.dirs import folders
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.fetched_log import Slice
from tidelog.storage.flush.flusher import NotDurable
from tidelog.storage.log import Log
from tidelog.types import TopicPartition

CHUNK_BYTES = 1 << 20
_NO_SYNC = (1 << 63) - 1


class Move:
    """`copy` until it is nearly done, then `swap` at once."""

    def __init__(
        self, name: TopicPartition, source: LogDirectory, target: LogDirectory, config: TopicConfig
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self._config = config
        self._from = source.open(name, config)
        self._cuts = self._from.state.cuts
        self._given_up = False
        unique = UUID(int=target.volume.random.getrandbits(128), version=4)
        self._folder = f"{target.path}/{folders.marked(name, unique, folders.FUTURE)}"
        # What fitted into a segment once may be too large for the present settings.
        largest = max(segment.size for segment in self._from.segments)
        unsynced = replace(
            config,
            flush_messages=_NO_SYNC,
            flush_ms=_NO_SYNC,
            segment_bytes=max(config.segment_bytes, largest),
        )
        try:
            target.volume.disk.make_folder(self._folder)
            self._write_metadata()  # before any record: encryption binds files to the topic's id
            self._to = Log.open(target.volume, self._folder, name, unsynced)
        except OSError as problem:
            raise target.volume.failed(problem, f"move {name}") from problem

    @property
    def lag(self) -> int:
        """Offsets still to copy."""
        return self._from.end - self._to.end

    @property
    def size(self) -> int:
        return self._to.size

    @property
    def cut(self) -> bool:
        """What was copied may not be in the log any more: copy again before `swap`."""
        return self._from.state.cuts != self._cuts

    async def copy(self) -> None:
        """Done when the copy has caught up and is on disk; appends may have come since."""
        async for _ in self.copying():
            pass

    async def copying(self) -> AsyncIterator[int]:
        """As `copy`, and yields the bytes of each step: a slow caller copies slowly."""
        while (part := self._next()) is not None:
            data = await self.source.volume.disk.run(part.read)
            if self._given_up:
                return
            if self.cut:
                continue
            self._append(data)
            yield len(data)
        await self._to.flush()

    def swap(self) -> Log:
        """The log in its new place; the old one must not be used any more.  Blocks for what came since `copy`: nothing
        may be appended in between, so this does not wait."""
        assert not self.cut, "the copy has records that the log has not"
        while (part := self._next()) is not None:
            self._append(part.read())
        assert self._from.next == self._from.end, "appends are on their way to the old log"
        self._to.advance_start(min(self._from.start, self._to.end))
        volume, durable_to = self.target.volume, self._to.recovery_point
        try:
            self._to.close()
            for segment in self._to.segments:
                if segment.end > durable_to or segment is self._to.segments.last:
                    segment.files.sync()
            volume.disk.sync_folder(self._folder)
        except OSError as problem:
            # The old log is still the one that counts: a full disk costs nothing but the move.
            raise volume.failed(problem, f"move {self.name}", isinstance(problem, NotDurable)) from problem
        try:
            self._take_place()
        except OSError as problem:
            raise volume.failed(problem, f"move {self.name}", at_risk=True) from problem
        self._to.abandon()  # syncs that are under way do not find its folder
        self.source.delete(self.name, self._config.file_delete_delay_ms)
        self.source.deleted()
        return self.target.open(self.name, self._config)

    def cancel(self) -> None:
        self._given_up = True
        self._to.abandon()
        self.target.discard(self._folder)

    def _write_metadata(self) -> None:
        metadata = f"{self._from.folder}/{checkpoints.PARTITION_METADATA}"
        if self.source.volume.disk.exists(metadata):
            data = self.source.volume.disk.read_file(metadata)
            path = f"{self._folder}/{checkpoints.PARTITION_METADATA}"
            self.target.volume.disk.replace_file(path, data)

    def _take_place(self) -> None:
        """The new name is durable before the old one goes: a crash in between leaves two logs with the same content,
        and the next start keeps one."""
        disk = self.target.volume.disk
        disk.rename(self._folder, self.target.folder(self.name))
        disk.sync_folder(self.target.path)
        self.target.names.add(self.name)
        self.target.log_starts.offsets[self.name] = self._from.start
        self.target.volume.recovery_points.offsets[self.name] = self._to.recovery_point

    def _next(self) -> Slice | None:
        """What to copy next.  Records may have been deleted since the last time, or cut: then all is copied again."""
        source, copy = self._from, self._to
        start = max(source.start, source.segments.first.base)  # what is in remote storage stays there
        if copy.end < start or self.cut:
            self._cuts = source.state.cuts
            # The log may start in the middle of a batch, which comes whole.
            first = source.reader.read_local(start, 1, source.end)
            copy.restart_at(start if first is None else _first_header(first).base_offset)
        return source.reader.read_local(max(copy.end, start), CHUNK_BYTES, source.end)

    def _append(self, data: bytes) -> None:
        """Batches of one leader epoch at a time, as `Log.append` wants them.  Bytes that rotted are not copied."""
        run: list[Header] = []
        headers = walk(data)
        if not headers or not all(crc_ok(data, header.position) for header in headers):
            self._from.suspect(max(self._to.end, self._from.start))
            raise CorruptMessage(f"{self.name} is damaged at or after offset {self._to.end}")
        for header in headers:
            if run and header.leader_epoch != run[0].leader_epoch:
                self._append_run(data, run)
                run = []
            run.append(header)
        if run:
            self._append_run(data, run)

    def _append_run(self, data: bytes, run: list[Header]) -> None:
        start, end = run[0].position, run[-1].position + run[-1].size
        newest = max(run, key=lambda header: header.max_timestamp)
        self._to.append(
            memoryview(data)[start:end],
            run[0].base_offset,
            run[-1].last_offset,
            newest.max_timestamp,
            newest.last_offset,
            run[0].leader_epoch,
        )
        for header in run:
            if header.producer_id >= 0:
                batch = memoryview(data)[header.position : header.position + header.size]
                self._to.appender.learned(header, lambda batch=batch: batch)  # type: ignore[misc]


def _first_header(part: Slice) -> Header:
    header = header_at(part.file.read(HEADER_SIZE, part.position))
    assert header is not None, "a read starts with a batch"
    return header
