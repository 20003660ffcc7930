"""Committed offsets between the wire and the log."""

from collections.abc import Sequence

from typing_extensions import Buffer

# Index, offset, leader epoch, metadata.
Asked = tuple[int, int, int, str | None]

class CommitRequest:
    """A plain OffsetCommit request."""

    group: str
    epoch: int
    member: str
    instance: str | None
    topics: list[tuple[str | bytes, list[Asked]]]
    """By name, or by the 16 bytes of their id."""
    answer: bytes
    """The whole frame that says that all went well."""

def read_commit(frame: Buffer, at: int, version: int, correlation_id: int) -> CommitRequest | None:
    """The request that begins at `at`; None when it is not plain, or not of versions 8 to 10."""

def offsets_batch(group: str, topics: Sequence[tuple[str, bytes, Sequence[Asked]]], now_ms: int) -> bytearray:
    """The batch that says what is committed; a topic is a name, the 16 bytes of its id, and its partitions."""
