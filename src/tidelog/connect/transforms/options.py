"""The settings of one transform.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tidelog.connect.records import ConnectRecord
from tidelog.errors import InvalidConfig

Transform = Callable[[ConnectRecord], ConnectRecord | None]
"""None: the record is dropped."""


class TransformOptions:
    """Remembers which settings were read, so that a setting without a meaning is refused."""

    def __init__(self, prefix: str, given: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._given = given
        self._read: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        self._read.add(name)
        value = self._given.get(name, default)
        if value is None:
            raise InvalidConfig(
                f'Missing required configuration "{self._prefix}{name}" which has no default value.'
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name, str(default)).lower()
        if value not in ("true", "false"):
            raise InvalidConfig(f"{self._prefix}{name} must be true or false, not {value!r}")
        return value == "true"

    def words(self, name: str, default: str | None = None) -> list[str]:
        return [word.strip() for word in self.text(name, default).split(",") if word.strip()]

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise InvalidConfig(f"{self._prefix}{name} cannot be {value!r}: use {', '.join(choices)}")
        return value

    def pattern(self, name: str) -> re.Pattern[str]:
        text = self.text(name)
        try:
            return re.compile(text)
        except re.error as problem:
            raise InvalidConfig(f"{self._prefix}{name} is no regular expression: {problem}") from None

    def done(self) -> None:
        unknown = sorted(set(self._given) - self._read)
        if unknown:
            raise InvalidConfig(f"{self._prefix}{unknown[0]} is not a setting of this transform")
