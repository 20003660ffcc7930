from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from bench.requests import batch, single
from tidelog._speed.log.batch import crc_ok, find, header_at, stamp, stamp_append_time, walk


def cases() -> Iterator[Case]:
    small = bytearray(single(100).data)
    large = bytearray(batch(1_000, 65_536).data)
    many = small * 1_000
    for number in range(1_000):
        stamp(many, number * len(small), number, 0)
    yield Case("header_at", lambda: header_at(small))
    yield Case("stamp", lambda: stamp(small, 0, 1234, 5))
    yield Case("crc_ok, one record of 100 bytes", lambda: crc_ok(small))
    yield Case("crc_ok, 64 KB", lambda: crc_ok(large))
    yield Case("stamp_append_time, 64 KB", lambda: stamp_append_time(large, 0, 1_700_000_000_000))
    yield Case("walk, 1,000 batches", lambda: walk(many))
    yield Case("find, behind 1,000 batches", lambda: find(many, 999))
