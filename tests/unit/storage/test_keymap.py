"""The map of last offsets: a known hash, a bound on memory."""

from __future__ import annotations

import pytest

from tests.reference.keymap import siphash128
from tidelog._speed.log.keymap import KeyMap

SEED = bytes(range(16))


def test_the_reference_hash_gives_the_published_values() -> None:
    assert siphash128(SEED, b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash128(SEED, b"\0").hex() == "da87c1d86b99af44347659119b22fc45"


def test_the_last_offset_wins_and_unknown_keys_have_none() -> None:
    keys = KeyMap(1 << 20, SEED)
    for offset, key in enumerate([b"a", b"b", b"", b"a", b"long" * 100]):
        assert keys.put(key, offset)
    assert [keys.get(key) for key in (b"a", b"b", b"", b"long" * 100, b"c")] == [3, 1, 2, 4, -1]
    assert len(keys) == keys.count == 4


def test_it_grows_up_to_its_bound_and_then_refuses_new_keys_only() -> None:
    bound = 200_000
    keys = KeyMap(bound, SEED)
    taken = 0
    while keys.put(b"%d" % taken, taken):
        taken += 1
        assert keys.memory_bytes <= bound
    assert taken * 24 > bound // 3, "at least a third of the memory holds keys"
    assert keys.put(b"7", 1_000_000)
    assert keys.get(b"7") == 1_000_000
    assert keys.get(b"%d" % (taken - 1)) == taken - 1
    assert keys.get(b"%d" % taken) == -1


def test_impossible_maps_are_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        KeyMap(1 << 20, b"short")
    with pytest.raises(ValueError, match="too few"):
        KeyMap(10, SEED)
