"""A round of compaction over one log's sealed segments: reads them, writes `.cleaned` ones, swaps nothing.

It needs a disk and a `CompactionJob`, nothing of the broker, so it runs in a worker process as well as inline.
For every key the record with the highest offset stays, at its offset; a tombstone stays until its delete horizon.
What was aborted goes, and markers of transactions that have nothing left go when their own horizon has passed.
Memory: the key map, two chunks, and one batch decompressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog._speed.log import compaction as native
from tidelog._speed.log.batch import HEADER_SIZE, Header, header_at
from tidelog._speed.log.keymap import KeyMap
from tidelog._speed.log.writer import replace_records
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.record.builder import recompress
from tidelog.record.codecs import Codec, decompress
from tidelog.storage.compaction.cleaned import CleanedSegment
from tidelog.storage.compaction.job import CompactionJob, CompactionProgress, Rewritten
from tidelog.storage.compaction.rules import SegmentToRewrite, group_sources
from tidelog.storage.compaction.transactions import DELETE_HORIZON, Transactions, with_delete_horizon
from tidelog.storage.disk import Disk
from tidelog.storage.segments.segment_files import SegmentFiles

CHUNK_BYTES = 1 << 20
_GROWTH_BYTES_MAX = 14  # of a record whose batch gets a delete horizon
_CODEC_BITS = 0x07


class Compactor:
    def __init__(self, disk: Disk, job: CompactionJob, used: Callable[[int], None] = lambda _: None) -> None:
        """`used` is called with the bytes that were read or written."""
        self.progress = CompactionProgress()
        self._disk = disk
        self._job = job
        self._used = used
        self._keys = KeyMap(job.memory_bytes, bytes.fromhex(job.seed))
        self._aborted = Transactions(job.aborted)
        self._out = bytearray(2 * CHUNK_BYTES)

    def run(self) -> Iterator[Rewritten]:
        """One group after the other.  CorruptMessage or InvalidRecord when a segment cannot be trusted."""
        job = self._job
        end = self._note_keys()
        self.progress.end, self.progress.keys = end, len(self._keys)
        sources = [source for source in job.sources if source.base < end]
        for group in group_sources(sources, job.bound, job.segment_bytes, job.segment_index_bytes):
            yield self._rewrite(group, end)

    def _chunks(self, source: SegmentToRewrite) -> Iterator[memoryview]:
        """All of a segment in runs of whole batches."""
        files = SegmentFiles(self._disk, self._job.folder, source.base)
        file = files.open()
        position, want = 0, CHUNK_BYTES
        while position < source.size:
            data = file.read(min(want, source.size - position), position)
            self._used(len(data))
            whole = native.whole_batches(data)
            if whole:
                yield memoryview(data)[:whole]
                position, want = position + whole, CHUNK_BYTES
                continue
            header = header_at(data)
            if header is None or not len(data) < header.size <= source.size - position:
                raise CorruptMessage(f"{files.path()} has no whole batch at position {position}")
            want = header.size

    # First pass: the last offset of every key in the dirty stretch.

    def _note_keys(self) -> int:
        """The end of the stretch whose keys are known: where the map was full, or the bound."""
        job = self._job
        ends = [source.base for source in job.sources[1:]] + [job.bound]
        for source, end in zip(job.sources, ends, strict=True):
            if end <= job.first_dirty:
                continue
            for data in self._chunks(source):
                full_at = self._note_chunk(data, source)
                if full_at is not None:
                    return max(full_at, job.first_dirty)
        return job.bound

    def _note_chunk(self, data: memoryview, source: SegmentToRewrite) -> int | None:
        start, at = self._job.first_dirty, 0
        while at < len(data):
            done, why, reached = native.note_batches(self._keys, data[at:], start, not self._aborted)
            at += done
            if why == native.OTHER:
                header = _header(data, at)
                batch = data[at : at + header.size]
                at += header.size
                if header.control or self._aborted.hold(header):
                    continue
                _, why, reached = native.note_batches(self._keys, _unpacked(batch, header), start, True)
            if why == native.FULL:
                return reached
            if why != native.END:
                raise self._damaged(source, data, at)
        return None

    # Second pass: everything that is not superseded.

    def _rewrite(self, group: list[SegmentToRewrite], end: int) -> Rewritten:
        job = self._job
        cleaned = CleanedSegment(
            self._disk,
            job.folder,
            group[0].base,
            job.token,
            job.index_interval_bytes,
            job.segment_index_bytes,
            bool(self._aborted),
        )
        try:
            for source in group:
                for data in self._chunks(source):
                    before = cleaned.size
                    self._sift_chunk(data, end, cleaned, source)
                    self._used(cleaned.size - before)
            cleaned.finish()
        except BaseException:
            cleaned.discard()
            raise
        self.progress.bytes_written += cleaned.size
        return Rewritten(
            [source.base for source in group],
            cleaned.size,
            cleaned.max_timestamp,
            cleaned.max_timestamp_offset,
        )

    def _sift_chunk(
        self, data: memoryview, end: int, cleaned: CleanedSegment, source: SegmentToRewrite
    ) -> None:
        self.progress.bytes_read += len(data)
        at = 0
        while at < len(data):
            done, written, why = self._sift(data[at:], self._out, end, False)
            if written:
                cleaned.add(memoryview(self._out)[:written])
            at += done
            if why == native.END or (why == native.FULL and done):
                continue
            header = _header(data, at)
            batch = data[at : at + header.size]
            if why == native.FULL:
                self._out = bytearray(header.size + header.count * _GROWTH_BYTES_MAX)
                continue
            if why == native.EMPTY:
                kept: bytes | memoryview = self._emptied(batch, header)
            elif why == native.OTHER:
                kept = self._sift_other(batch, header, end, cleaned)
            else:
                raise self._damaged(source, data, at)
            if kept:
                cleaned.add(kept)
            at += header.size

    def _sift_other(
        self, batch: memoryview, header: Header, end: int, cleaned: CleanedSegment
    ) -> bytes | memoryview:
        """What stays of a batch that the native pass leaves to us."""
        if header.control:
            return self._sift_marker(batch, header, cleaned)
        if header.transactional:
            self._aborted.met(header)
        if self._aborted.hold(header):
            return self._emptied(batch, header)
        plain = _unpacked(batch, header)
        out = bytearray(len(plain) + header.count * _GROWTH_BYTES_MAX)
        _, written, why = self._sift(plain, out, end, True)
        if why == native.EMPTY or (why == native.END and not written):
            return self._emptied(batch, header)
        if why != native.END:
            raise InvalidRecord(f"the batch at offset {header.base_offset} does not match its header")
        sifted = memoryview(out)[:written]
        return batch if sifted == plain else recompress(sifted, Codec(header.compression))

    def _sift_marker(self, batch: memoryview, header: Header, cleaned: CleanedSegment) -> bytes | memoryview:
        """A marker stays while anything of its transaction does, then for as long as tombstones do: who has read some of
        the transaction must find its end.  One that has its producer's epoch stays as well."""
        needed, aborted = self._aborted.ended(batch, header)
        if needed:
            if aborted is not None:
                cleaned.add_aborted(aborted)
            return batch
        job = self._job
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        if horizon is None:
            return with_delete_horizon(batch, header, job.now_ms + job.delete_retention_ms)
        last = job.producers.get(header.producer_id)
        has_epoch = last is not None and last.offset < 0 and last.epoch == header.producer_epoch
        if job.now_ms < horizon or has_epoch or header.last_offset + 1 == job.bound:
            return batch
        return b""

    def _sift(
        self, data: memoryview | bytes, out: bytearray, end: int, transactional_too: bool
    ) -> tuple[int, int, int]:
        job, progress = self._job, self.progress
        done, written, why, seen, kept, without_key = native.sift_batches(
            self._keys, data, out, end, job.bound, job.now_ms, job.delete_retention_ms, transactional_too
        )
        progress.records_read += seen
        progress.records_kept += kept
        progress.records_without_key += without_key
        return done, written, why

    def _emptied(self, batch: memoryview, header: Header) -> bytes:
        """The bare header where it still says something: a producer's last sequence number, or where the stretch
        ends; nothing otherwise."""
        last = self._job.producers.get(header.producer_id)
        if header.last_offset + 1 == self._job.bound or (
            last is not None and last.offset == header.last_offset
        ):
            return native.empty_batch(batch)
        return b""

    def _damaged(self, source: SegmentToRewrite, data: memoryview, at: int) -> CorruptMessage:
        header = header_at(data, at)
        where = "its end" if header is None else f"offset {header.base_offset}"
        return CorruptMessage(
            f"{SegmentFiles(self._disk, self._job.folder, source.base).path()} has a damaged batch at {where}: "
            f"the log is not compacted until it is repaired"
        )


def _header(data: memoryview, at: int) -> Header:
    header = header_at(data, at)
    assert header is not None, "the native pass stops at a whole batch"
    return header


def _unpacked(batch: memoryview, header: Header) -> bytes | memoryview:
    """The same batch, not compressed."""
    if header.compression == Codec.NONE:
        return batch
    section = decompress(header.compression, batch[HEADER_SIZE:])
    return replace_records(batch, section, header.attributes & ~_CODEC_BITS)
