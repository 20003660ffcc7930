from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from bench.requests import batch
from tidelog._speed.log.batch import stamp
from tidelog._speed.log.compaction import note_batches, sift_batches
from tidelog._speed.log.keymap import KeyMap


def cases() -> Iterator[Case]:
    """Four batches with the same keys: the last one stays."""
    content = batch(100, 65_536, first_key=0)
    data = bytearray(content.data * 4)
    for number in range(4):
        stamp(data, number * len(content.data), number * content.records, 0)
    end = 4 * content.records
    keys = KeyMap(1 << 20, bytes(16))
    note_batches(keys, data, 0, False)
    out = bytearray(len(data))
    yield Case(f"note_batches, {end} records in 256 KB", lambda: note_batches(keys, data, 0, False))
    yield Case(
        f"sift_batches, {end} records in 256 KB",
        lambda: sift_batches(keys, data, out, end, end - 1, 0, 86_400_000, False),
    )
