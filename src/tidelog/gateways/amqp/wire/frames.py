"""Frames of AMQP 0-9-1: cut out of the bytes of a connection, and made.  Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE
FRAME_BYTES_MIN = 4096
OVERHEAD = 8
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

_HEAD = struct.Struct(">BHI")
_CONTENT = struct.Struct(">HHQ")


class FrameFault(ValueError):
    """The bytes are no frame: nothing after them can be understood."""


class AmqpFrame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class FrameCutter:
    """Collects bytes and yields whole frames; keeps at most one frame that has not wholly arrived."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._rest = b""

    def cut(self, data: bytes) -> list[AmqpFrame]:
        """The frames that are whole now; FrameFault when the bytes are none."""
        if self._rest:
            data = self._rest + data
        frames = []
        at, size = 0, len(data)
        most = self.frame_bytes_max - OVERHEAD
        while size - at >= 7:
            kind, channel, length = _HEAD.unpack_from(data, at)
            if length > most:
                raise FrameFault(f"a frame of {length + OVERHEAD} bytes: frame-max is {self.frame_bytes_max}")
            end = at + 7 + length
            if end >= size:
                break
            if data[end] != END:
                raise FrameFault("a frame does not end with 0xCE")
            frames.append(AmqpFrame(kind, channel, data[at + 7 : end]))
            at = end + 1
        self._rest = data[at:]
        return frames


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"%b%b\xce" % (_HEAD.pack(kind, channel, len(payload)), payload)


def method_frame(channel: int, payload: bytes) -> bytes:
    return frame(METHOD, channel, payload)


def content_frames(channel: int, properties: bytes, body: bytes, frame_bytes_max: int) -> bytes:
    """The header of a content of class basic, and its body in as many frames as it takes."""
    head = frame(HEADER, channel, _CONTENT.pack(60, 0, len(body)) + properties)
    most = frame_bytes_max - OVERHEAD
    if len(body) <= most:
        return head + frame(BODY, channel, body) if body else head
    pieces = (frame(BODY, channel, body[at : at + most]) for at in range(0, len(body), most))
    return head + b"".join(pieces)


HEARTBEAT_FRAME = frame(HEARTBEAT, 0, b"")


def content_header(payload: bytes) -> tuple[int, int, bytes]:
    """(class, size of the body, the properties as they are)"""
    if len(payload) < _CONTENT.size + 2:
        raise FrameFault("a content header is cut off")
    class_id, _, size = _CONTENT.unpack_from(payload)
    return class_id, size, payload[_CONTENT.size :]
