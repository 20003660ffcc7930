from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from bench.requests import batch, single
from tidelog._speed.log.acceptance import sound

TIMESTAMP_MAX = 1 << 60


def cases() -> Iterator[Case]:
    for name, data in (
        ("one record of 100 bytes", single(100).data),
        ("64 KB of 100-byte records", batch(100, 65_536).data),
        ("64 KB of 1,000-byte records", batch(1_000, 65_536).data),
    ):
        view = memoryview(bytearray(data))
        assert sound(view, 1 << 20, TIMESTAMP_MAX) is not None
        yield Case(f"sound, {name}", lambda view=view: sound(view, 1 << 20, TIMESTAMP_MAX))  # type: ignore[misc]
