from __future__ import annotations

import pytest

from tidelog._speed.log.pooled_buffer import PooledBuffer, kept

MIB = 1 << 20


def test_memory_is_used_again_once_nobody_refers_to_it() -> None:
    first = memoryview(PooledBuffer(2 * MIB))
    first[:] = b"\1" * len(first)
    held = first[10:20]
    second = memoryview(PooledBuffer(2 * MIB))
    second[:] = b"\2" * len(second)
    del first, second
    # What is still looked at is nobody else's; the other one is there for the next.
    again = memoryview(PooledBuffer(2 * MIB - 100))
    assert again[:3] == b"\2\2\2"
    again[:] = b"\3" * len(again)
    assert held == b"\1" * 10


@pytest.mark.parametrize("size", [0, 1, 1_000, 128 << 10, 3 * MIB + 1])
def test_it_has_the_size_that_was_asked_for(size: int) -> None:
    room = PooledBuffer(size)
    view = memoryview(room)
    assert len(room) == len(view) == size
    view[:] = bytes(size)
    assert view.tobytes() == bytes(size)
    with pytest.raises(ValueError):
        PooledBuffer(-1)


def test_what_is_kept_is_bounded() -> None:
    rooms = [PooledBuffer(MIB + at * 300_000) for at in range(30)] + [PooledBuffer(40 * MIB)]
    del rooms
    count, size = kept()
    assert 0 < count <= 12
    assert size <= 32 * MIB
