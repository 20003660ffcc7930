from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from tidelog._speed.log.writer import Writer

NOW_MS = 1_700_000_000_000


def cases() -> Iterator[Case]:
    for record_bytes in (100, 1_000):
        value = bytes(record_bytes)
        yield Case(f"one record of {record_bytes} bytes", lambda v=value: _batch(v, 1))  # type: ignore[misc]
        yield Case(f"64 KB of {record_bytes}-byte records", lambda v=value: _batch(v, 1 << 20))  # type: ignore[misc]


def _batch(value: bytes, records_max: int) -> bytes:
    writer = Writer(65_536)
    while writer.count < records_max and writer.add(None, value, NOW_MS):
        pass
    return writer.seal(0, 0, -1, 1, 0, 0)
