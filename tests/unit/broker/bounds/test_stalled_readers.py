from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tidelog.broker.bounds.stalled_readers import StalledReaders


@dataclass(eq=False)
class Reader:
    name: str
    unsent_bytes: int
    bytes_out: int = 0


def closed(stalled: StalledReaders, readers: list[Reader], now_s: float, too_much: int = 0) -> list[str]:
    found = stalled.to_close(cast(Any, readers), now_s, 10_000, too_much)
    return [f"{connection.name}: {bound}" for connection, bound, _ in cast(Any, found)]


def test_only_who_takes_nothing_for_too_long_is_closed() -> None:
    stalled = StalledReaders()
    deaf, slow, done = Reader("deaf", 100), Reader("slow", 100), Reader("done", 0)
    for now_s in range(11):
        assert closed(stalled, [deaf, slow, done], now_s) == (
            [] if now_s < 10 else ["deaf: tidelog.connection.stalled.ms"]
        )
        slow.bytes_out += 1


def test_while_answers_take_too_much_memory_those_that_wait_longest_go() -> None:
    stalled = StalledReaders()
    old, new, large = Reader("old", 100), Reader("new", 100), Reader("large", 200)
    assert closed(stalled, [old], 0) == []
    assert closed(stalled, [old, new, large], 1) == []
    assert closed(stalled, [old, new, large], 2, 150) == [
        "old: queued.max.request.bytes",
        "large: queued.max.request.bytes",
    ]
