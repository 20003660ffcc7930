"""SipHash-2-4-128 and the map of last offsets in plain Python."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _MASK


def _round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & _MASK
    v[1] = _rotate(v[1], 13) ^ v[0]
    v[0] = _rotate(v[0], 32)
    v[2] = (v[2] + v[3]) & _MASK
    v[3] = _rotate(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & _MASK
    v[3] = _rotate(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & _MASK
    v[1] = _rotate(v[1], 17) ^ v[2]
    v[2] = _rotate(v[2], 32)


def siphash128(seed: bytes, data: bytes) -> bytes:
    low, high = (int.from_bytes(seed[at : at + 8], "little") for at in (0, 8))
    v = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D ^ 0xEE,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]
    whole = len(data) // 8 * 8
    tail = int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56
    for word in [*(int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)), tail]:
        v[3] ^= word
        _round(v)
        _round(v)
        v[0] ^= word
    out = b""
    for place, mark in ((2, 0xEE), (1, 0xDD)):
        v[place] ^= mark
        for _ in range(4):
            _round(v)
        out += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return out


class PlainKeyMap:
    """A dict by hash; `None` instead of an offset for a key that was never put."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[siphash128(self._seed, key)] = offset

    def get(self, key: bytes) -> int | None:
        return self._offsets.get(siphash128(self._seed, key))
