from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from tidelog._speed.log.keymap import KeyMap

KEYS = 100_000


def cases() -> Iterator[Case]:
    keys = [b"key-%012d" % number for number in range(KEYS)]
    filled = KeyMap(64 << 20, bytes(16))
    for offset, key in enumerate(keys):
        filled.put(key, offset)
    yield Case(f"put, known key of {KEYS:,}", lambda: filled.put(keys[4321], 7))
    yield Case(f"get, of {KEYS:,}", lambda: filled.get(keys[4321]))
    yield Case("get, unknown", lambda: filled.get(b"key-unknown"))
