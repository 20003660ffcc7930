"""What all messages share: equality and printing of structs, and the edges of decoding and encoding.

The generated classes (`tidelog.wire.messages`) supply `_read` and `_write`, straight-line code that trusts
its input; here its failures get their names.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Self

from tidelog import errors
from tidelog.wire.primitives import Buffer, Malformed, Unencodable

NEVER = 32767  # no version is flexible


class Struct:
    """A part of a message: attributes in `__slots__`, compared and printed by value."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__name__}({fields})"


class Message(Struct):
    """A whole message.  `VERSIONS` is inclusive; from `FLEXIBLE_FROM` on, lengths are compact."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_FROM: ClassVar[int]

    @classmethod
    def decode(cls, data: Buffer, version: int, at: int = 0) -> Self:
        """The message that fills `data` from `at` to its end; `Malformed` if it does not."""
        message, end = cls.decode_prefix(data, version, at)
        if end != len(data):
            raise Malformed(f"{len(data) - end} bytes are left over after {cls.__name__} version {version}")
        return message

    @classmethod
    def decode_prefix(cls, data: Buffer, version: int, at: int = 0) -> tuple[Self, int]:
        """The message that starts at `at`, and where it ends; what follows is the caller's business."""
        cls.check_version(version)
        try:
            message, end = cls._read(data, at, version)
        except (IndexError, struct.error):
            end = len(data) + 1
        except UnicodeDecodeError as problem:
            raise Malformed(
                f"{cls.__name__} version {version} has a string that is not UTF-8: {problem}"
            ) from None
        if end > len(data):
            raise Malformed(f"{cls.__name__} version {version} is cut off after {len(data) - at} bytes")
        return message, end

    def encode(self, version: int) -> bytes:
        """The bytes of this message; `UnsupportedVersion` if a field is set that the version cannot carry."""
        self.check_version(version)
        out = bytearray()
        try:
            self._write(out, version)
        except (struct.error, TypeError, AttributeError, ValueError) as problem:
            raise Unencodable(f"{self.__class__.__name__} version {version}: {problem}") from problem
        return bytes(out)

    @classmethod
    def check_version(cls, version: int) -> None:
        low, high = cls.VERSIONS
        if not low <= version <= high:
            raise errors.UnsupportedVersion(f"{cls.__name__} has versions {low} to {high}, not {version}")

    @staticmethod
    def _read(data: Buffer, at: int, version: int) -> tuple[Any, int]:
        raise AssertionError("the generated class reads")

    def _write(self, out: bytearray, version: int) -> None:
        raise AssertionError("the generated class writes")
