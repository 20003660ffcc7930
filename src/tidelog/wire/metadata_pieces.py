"""Encodes an answer to Metadata whose topics come in several parts: the bytes are those of one answer with all of them.

Used where an answer is so long that making it in one go would keep everybody else waiting."""

from __future__ import annotations

from struct import Struct

from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from tidelog.wire.primitives import put_uvarint

PIECE_BYTES = 1 << 17  # each costs a call of the system when it is sent
_COUNT = Struct(">i").pack


class MetadataPieces:
    def __init__(self, version: int) -> None:
        self._version = version
        # What stands behind the topics: operations on the cluster, an error code, tagged fields.
        self._tail = (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + self._is_flexible
        self._start = len(MetadataResponse().encode(version)) - self._tail - len(self._counted(0))
        self._count = 0
        self._pieces: list[bytes] = []
        self._last = bytearray()

    def add(self, topics: list[MetadataResponseTopic]) -> None:
        if topics:
            body = MetadataResponse(topics=topics).encode(self._version)
            self._last += body[self._start + len(self._counted(len(topics))) : len(body) - self._tail]
            if len(self._last) >= PIECE_BYTES:
                self._pieces.append(bytes(self._last))
                self._last.clear()
            self._count += len(topics)

    def finish(self, around: MetadataResponse) -> list[bytes]:
        """`around` has everything but the topics."""
        around.topics = []
        body = around.encode(self._version)
        end = len(body) - self._tail
        head = bytes(body[: end - len(self._counted(0))]) + self._counted(self._count)
        last = bytes(self._last + body[end:])
        return [head, *self._pieces, *([last] if last else [])]

    @property
    def _is_flexible(self) -> bool:
        return self._version >= MetadataResponse.FLEXIBLE_FROM

    def _counted(self, count: int) -> bytes:
        if not self._is_flexible:
            return _COUNT(count)
        out = bytearray()
        put_uvarint(out, count + 1)
        return bytes(out)
