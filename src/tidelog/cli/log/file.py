"""The items in a segment's files, one by one, in bounded memory, damaged files included.

CRCs are computed over pieces, so a length field that lies costs time, not memory; a batch is held whole only
when it is sound and its records are asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from tidelog import errors
from tidelog._speed.log.batch import ATTRIBUTES_AT, HEADER_SIZE, Header, header_at
from tidelog._speed.log.crc32c import crc32c
from tidelog.cli.output import data_fields
from tidelog.record import Codec, Record, read_batches, read_marker
from tidelog.storage.disk import Disk, File

PIECE_BYTES = 1 << 20
MAGIC = 2
_OFFSET_ENTRY = struct.Struct(">ii")  # offset from the base, position
_TIME_ENTRY = struct.Struct(">qi")  # timestamp, offset from the base
_ABORTED_ENTRY = struct.Struct(">hqqqq")  # version, producer, first offset, marker, last stable offset

Item = dict[str, Any]


class NotALogFile(Exception):
    pass


class PlainBytes(RawIOBase):
    """A file of a disk, as Python reads files."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence:
            offset += self._position if whence == 1 else self._file.size()
        self._position = offset
        return offset

    def readinto(self, buffer: Any, /) -> int:
        data = self._file.read(len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def read_log_file(path: Path, with_records: bool, disk: Disk) -> Iterator[Item]:
    """`disk` decrypts what is encrypted.  Items as `tidelog log dump --json` prints them; the last one is the summary."""
    suffixes = [one for one in path.suffixes if one != ".deleted"]
    kind = suffixes[-1] if suffixes else ""
    with BufferedReader(PlainBytes(disk.open(str(path)))) as file:
        if kind in (".log", ".cleaned", ".swap"):
            lost = _lost_ranges(path.parent)
            for item in _batches(file, disk.size(str(path)), with_records):
                if item["type"] == "batch" and (item["base_offset"], item["last_offset"] + 1) in lost:
                    item["lost"] = True
                yield item
        elif kind == ".index":
            yield from _entries(file, _base_offset(path), _OFFSET_ENTRY)
        elif kind == ".timeindex":
            yield from _entries(file, _base_offset(path), _TIME_ENTRY)
        elif kind == ".txnindex":
            yield from _aborted(file, _base_offset(path))
        else:
            raise NotALogFile(f"{path} is not a file of a log: name a .log, .index, .timeindex or .txnindex")


def _lost_ranges(folder: Path) -> set[tuple[int, int]]:
    """Offsets that `tidelog log repair` gave up."""
    try:
        lines = (folder / "lost-ranges").read_text().splitlines()[2:]
        return {(int(words[0]), int(words[1])) for words in map(str.split, lines)}
    except (OSError, ValueError, IndexError):
        return set()


def _base_offset(path: Path) -> int:
    digits = path.name.split(".")[0]
    if not digits.isdecimal():
        raise NotALogFile(f"{path} does not start with its base offset, so its entries cannot be read")
    return int(digits)


def _batches(file: BinaryIO, size: int, with_records: bool) -> Iterator[Item]:
    position = batches = records = damaged = 0
    end = 0
    while position < size:
        file.seek(position)
        header = header_at(file.read(HEADER_SIZE))
        problem = _header_problem(file, header, position, size)
        if problem is not None:
            if problem:
                damaged += 1
                yield {"type": "damage", "position": position, "problem": problem}
            break
        assert header is not None
        sound = _crc(file, position, header) == header.crc
        batches += 1
        records += header.count
        yield _batch_item(header, position, sound)
        if not sound:
            damaged += 1
        else:
            for item in _sound_batch(file, position, header, end, with_records):
                damaged += item["type"] == "damage"
                yield item
            end = max(end, header.last_offset + 1)
        position += header.size
    yield {
        "type": "summary",
        "unit": "batch",
        "items": batches,
        "records": records,
        "bytes": size,
        "damaged": damaged,
    }


def _header_problem(file: BinaryIO, header: Header | None, position: int, size: int) -> str | None:
    """None: a whole batch of a known format.  "": nothing but preallocated space from here on."""
    if header is None or header.size > size - position or header.magic != MAGIC:
        if _only_zeros(file, position):
            return ""
        if size - position < HEADER_SIZE:
            return f"{size - position} bytes remain, less than a batch header"
        if header is None:
            return "no batch starts here: the length is impossible; the rest cannot be read"
        if header.size > size - position:
            return f"a batch of {header.size} bytes, of which only {size - position} exist"
        return f"a batch of format {header.magic}, not {MAGIC}; the rest cannot be read"
    return None


def _only_zeros(file: BinaryIO, position: int) -> bool:
    file.seek(position)
    while piece := file.read(PIECE_BYTES):
        if piece.count(0) != len(piece):
            return False
    return True


def _crc(file: BinaryIO, position: int, header: Header) -> int:
    file.seek(position + ATTRIBUTES_AT)
    left, value = header.size - ATTRIBUTES_AT, 0
    while left > 0:
        piece = file.read(min(left, PIECE_BYTES))
        if not piece:
            return -1  # Cut while it was being read.
        value = crc32c(piece, value)
        left -= len(piece)
    return value


def _batch_item(header: Header, position: int, sound: bool) -> Item:
    known = header.compression in set(Codec)
    return {
        "type": "batch",
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.count,
        "crc": "ok" if sound else "bad",
        "codec": Codec(header.compression).name.lower() if known else f"unknown {header.compression}",
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "append" if header.log_append_time else "create",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.transactional,
        "control": header.control,
    }


def _sound_batch(
    file: BinaryIO, position: int, header: Header, end: int, with_records: bool
) -> Iterator[Item]:
    if header.base_offset < end:
        problem = f"offset {header.base_offset} comes after {end - 1}"
        yield {"type": "damage", "position": position, "problem": problem}
    if with_records:
        file.seek(position)
        yield from _record_items(file.read(header.size), position)


def _record_items(data: bytes, position: int) -> Iterator[Item]:
    try:
        for batch in read_batches(data, check_crc=False):
            for record in batch.records():
                yield _record_item(record, batch.header.control)
    except errors.TidelogError as problem:
        yield {"type": "damage", "position": position, "problem": str(problem)}


def _record_item(record: Record, control: bool) -> Item:
    item: Item = {"type": "record", "offset": record.offset, "timestamp": record.timestamp}
    if control:
        end = read_marker(record)
        if end is None:
            return {**item, "marker": "unknown"}
        return {**item, "marker": end.marker.name.lower(), "coordinator_epoch": end.coordinator_epoch}
    return {
        **item,
        **data_fields("key", record.key),
        **data_fields("value", record.value),
        "headers": [{"name": name, **data_fields("value", value)} for name, value in record.headers],
    }


def _entries(file: BinaryIO, base: int, layout: struct.Struct) -> Iterator[Item]:
    """An index ends at its first entry that is all zeros and not the first: the rest is preallocated."""
    position = count = damaged = 0
    last: tuple[int, int] = (-1, -1)
    while len(raw := file.read(layout.size)) == layout.size:
        if position and not any(raw):
            break
        first, second = layout.unpack(raw)
        if layout is _OFFSET_ENTRY:
            entry, item = (first, second), {"type": "entry", "offset": base + first, "position": second}
        else:
            entry, item = (first, second), {"type": "entry", "offset": base + second, "timestamp": first}
        yield item
        count += 1
        if entry[0] < last[0] or entry[1] < last[1]:
            damaged += 1
            yield {"type": "damage", "position": position, "problem": "this entry is before the previous one"}
        last = entry
        position += layout.size
    else:
        if raw:
            damaged += 1
            yield {
                "type": "damage",
                "position": position,
                "problem": f"{len(raw)} bytes remain, less than an entry",
            }
    yield {
        "type": "summary",
        "unit": "entry",
        "items": count,
        "records": 0,
        "bytes": position,
        "damaged": damaged,
    }


def _aborted(file: BinaryIO, base: int) -> Iterator[Item]:
    """The index of aborted transactions; markers ascend from the segment's base on."""
    position = count = damaged = 0
    before = base - 1
    while raw := file.read(_ABORTED_ENTRY.size):
        if len(raw) < _ABORTED_ENTRY.size:
            problem: str | None = f"{len(raw)} bytes remain, less than an entry"
        else:
            version, producer_id, first, last, stable = _ABORTED_ENTRY.unpack(raw)
            yield {
                "type": "aborted",
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
            count += 1
            problem = _aborted_problem(version, first, last, before)
            before = last
        if problem is not None:
            damaged += 1
            yield {"type": "damage", "position": position, "problem": problem}
        position += len(raw)
    yield {
        "type": "summary",
        "unit": "entry",
        "items": count,
        "records": 0,
        "bytes": position,
        "damaged": damaged,
    }


def _aborted_problem(version: int, first: int, last: int, before: int) -> str | None:
    if version != 0:
        return f"an entry of version {version}, not 0"
    if last <= before:
        return f"its marker at {last} lies before the last one's, or before the segment"
    return f"its marker at {last} lies before its first record at {first}" if first > last else None
