from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from tidelog._speed.log.crc32c import crc32c, crc32c_portable


def cases() -> Iterator[Case]:
    for size in (100, 1_000, 16_384, 65_536):
        data = bytes(size)
        yield Case(f"{size} bytes", lambda data=data: crc32c(data))  # type: ignore[misc]
    data = bytes(65_536)
    yield Case("65536 bytes, without the instruction", lambda: crc32c_portable(data))
