"""The seam to whatever keeps the keys that data keys are wrapped with: key files, or a key management service.

A named key has versions; a data key is wrapped with the newest and says with which.  Calls block, at most for seconds."""

from __future__ import annotations

import errno
import re
from typing import Protocol

from tidelog.errors import InvalidConfig

NONE = "none"
_NAME = re.compile(r"(file|vault):([A-Za-z0-9][A-Za-z0-9._-]{0,127})")


class KeyUnavailable(OSError):
    """A key is not here now.  It is no fault of the disk: the directory stays online, and the file can be read as soon as
    the key is back."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOKEY, message)

    def __str__(self) -> str:
        return str(self.strerror)


class KeyGone(KeyUnavailable):
    """The key was deleted: nobody can read the data that it encrypted."""


class KeyService(Protocol):
    local: bool
    """True if the service answers at once, without a network."""

    def newest_version(self, name: str) -> int: ...
    def wrap(self, name: str, plain: bytes, context: bytes) -> tuple[int, str]:
        """With the newest version, and which that is."""
        ...

    def unwrap(self, name: str, wrapped: str, context: bytes) -> bytes: ...
    def create(self, name: str) -> None: ...
    def rotate(self, name: str) -> int:
        """The new version.  Older ones stay, for what is wrapped with them."""
        ...

    def delete(self, name: str) -> None:
        """With all versions, for good."""
        ...

    def names(self) -> list[str]: ...


def parse_key(text: str) -> tuple[str, str]:
    """The service and the name in a value of `encryption.key`."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise InvalidConfig(
            f"{text!r} is not a key: write file:NAME or vault:NAME, with letters, digits, '.', '_' and '-' in the name"
        )
    return match[1], match[2]
