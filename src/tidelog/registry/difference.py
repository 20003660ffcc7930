"""What keeps a reader with one schema from reading what was written with another.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Difference(NamedTuple):
    kind: str
    """Confluent's name of it, such as READER_FIELD_MISSING_DEFAULT_VALUE."""
    path: str
    words: str
    """A sentence with {reader} and {writer} in the places of `new` and `old`."""
    more: str = ""

    def told(self, reader: str, writer: str) -> str:
        # Names come from schemas and may have braces of their own.
        words = self.words.replace("{reader}", reader).replace("{writer}", writer)
        text = f"{{errorType:'{self.kind}', description:'{words}'"
        return text + (f", additionalInfo:'{self.more}'}}" if self.more else "}")


def told(differences: Iterable[Difference], reader: str, writer: str) -> list[str]:
    return [one.told(reader, writer) for one in differences]
