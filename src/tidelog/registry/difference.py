"""A difference between two schemas that makes a reader's schema incompatible with a writer's.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Difference(NamedTuple):
    kind: str
    """Confluent's name of the difference, such as READER_FIELD_MISSING_DEFAULT_VALUE."""
    path: str
    words: str
    """A sentence with the placeholders {reader} and {writer} for `new` and `old`."""
    more: str = ""

    def told(self, reader: str, writer: str) -> str:
        # `str.format` would fail: names come from schemas and may contain braces.
        words = self.words.replace("{reader}", reader).replace("{writer}", writer)
        text = f"{{errorType:'{self.kind}', description:'{words}'"
        return text + (f", additionalInfo:'{self.more}'}}" if self.more else "}")


def told(differences: Iterable[Difference], reader: str, writer: str) -> list[str]:
    return [difference.told(reader, writer) for difference in differences]
