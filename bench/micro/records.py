from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from bench.requests import batch, single
from tidelog._speed.log.batch import HEADER_SIZE
from tidelog._speed.log.records import check, columns, read


def cases() -> Iterator[Case]:
    for name, content in (
        ("one record of 100 bytes", single(100)),
        ("64 KB of 100-byte records", batch(100, 65_536)),
        ("64 KB of 1,000-byte records", batch(1_000, 65_536)),
    ):
        section, count = content.data[HEADER_SIZE:], content.records
        yield Case(f"check, {name}", lambda s=section, n=count: check(s, n, False))  # type: ignore[misc]
        yield Case(f"columns, {name}", lambda s=section, n=count: columns(s, n, 0, 0))  # type: ignore[misc]
        yield Case(f"read, {name}", lambda s=section, n=count: read(s, n, 0, 0))  # type: ignore[misc]
