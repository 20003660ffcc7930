"""What lies beside the bytes of a copied segment: its chunks, aborted transactions, leader epochs and producers.  Pure.

A chunk is a run of whole batches of about a megabyte, with its checksum: what one read of cold data needs, and nothing
of the segment has to be read before.  The aborted transactions are all that have records in the segment, wherever their
markers lie."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.storage.segments.txn_index import Aborted


class CorruptSideFile(Exception):
    """The object is not what was written."""


class Chunk(NamedTuple):
    position: int
    size: int
    start: int
    """The offset of its first batch."""
    max_timestamp: int
    crc: int


class SideFile(NamedTuple):
    chunks: tuple[Chunk, ...]
    aborted: tuple[Aborted, ...]
    epochs: tuple[tuple[int, int], ...]
    """The leader epochs of the log up to the end of the segment: (epoch, first offset)."""
    producers: bytes
    """A snapshot of producers as of the end of the segment; empty when there was none."""

    def chunk_holding(self, offset: int) -> int:
        """The first one for offsets before it."""
        return max(0, bisect_right(self.chunks, offset, key=lambda chunk: chunk.start) - 1)

    def end_of(self, number: int, segment_end: int) -> int:
        return self.chunks[number + 1].start if number + 1 < len(self.chunks) else segment_end

    def aborted_between(self, start: int, end: int) -> list[Aborted]:
        return [each for each in self.aborted if each.first_offset < end and each.last_offset >= start]

    def encode(self) -> bytes:
        fields = {
            "chunks": self.chunks,
            "aborted": self.aborted,
            "epochs": self.epochs,
            "producers": base64.b64encode(self.producers).decode(),
        }
        return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes) -> SideFile:
    try:
        fields = json.loads(data)
        return SideFile(
            tuple(Chunk(*each) for each in fields["chunks"]),
            tuple(Aborted(*each) for each in fields["aborted"]),
            tuple((epoch, start) for epoch, start in fields["epochs"]),
            base64.b64decode(fields["producers"], validate=True),
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptSideFile(str(problem)) from None


def epochs_below(epochs: Sequence[tuple[int, int]], end: int) -> tuple[tuple[int, int], ...]:
    return tuple((epoch, start) for epoch, start in epochs if start < end)
