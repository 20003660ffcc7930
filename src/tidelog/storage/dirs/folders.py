"""Names of partition folders in a log directory: `orders-0`, `orders-0.<id>-delete`, `orders-0.<id>-future`,
`orders-0.<id>-stray`."""

from __future__ import annotations

import re
from typing import NamedTuple
from uuid import UUID

from tidelog.types import TopicPartition

DELETE = "-delete"
FUTURE = "-future"
STRAY = "-stray"
_NAME_BYTES_MAX = 255
_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_MARKED = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}(-delete|-future|-stray)")


class Folder(NamedTuple):
    name: TopicPartition
    suffix: str
    """Empty for one in use."""


def parse(name: str) -> Folder | None:
    """None for what is no partition's folder."""
    if marked := _MARKED.fullmatch(name):
        return Folder(TopicPartition(marked[1], int(marked[2])), marked[3])
    if plain := _PARTITION.fullmatch(name):
        return Folder(TopicPartition(plain[1], int(plain[2])), "")
    return None


def marked(name: TopicPartition, unique: UUID, suffix: str) -> str:
    """A long topic is cut: file systems allow 255 bytes.  Of such a name only the partition is to be read back."""
    end = f"-{name.partition}.{unique.hex}{suffix}"
    return name.topic[: _NAME_BYTES_MAX - len(end)] + end
