"""Columns written as records: rows of Arrow's buffers, straight into the batches of a producer."""

from typing import Any

from typing_extensions import Buffer

from tidelog._speed.client.intake import Intake
from tidelog.client.producer.batch import OutgoingBatch

class BytesColumn:
    """A column of bytes or nulls, with offsets of 64 bits; `start` is its first row in the buffers."""

    def __init__(
        self, offsets: Buffer, content: Buffer, valid: Buffer | None, start: int, rows: int
    ) -> None: ...
    @property
    def rows(self) -> int: ...

class HeadersColumn:
    """A list of names and values for each row; `start` is the first row in `offsets`."""

    def __init__(
        self, offsets: Buffer, names: BytesColumn, values: BytesColumn, start: int, rows: int
    ) -> None: ...

class Rows:
    """What is to be sent, and how far that is."""

    def __init__(
        self,
        rows: int,
        keys: BytesColumn | None,
        values: BytesColumn | None,
        headers: HeadersColumn | None = None,
        timestamps: Buffer | None = None,
        partitions: Buffer | None = None,
        partition: Any = None,
    ) -> None:
        """`timestamps`: int64, `partitions`: int32; `partition`: the same for all, None for the partitioner."""
    @property
    def rows(self) -> int: ...
    @property
    def sent(self) -> int:
        """How many rows have been taken."""
    @property
    def needs(self) -> int:
        """What the next row takes of the memory, when that was full."""
    @property
    def batches(self) -> list[OutgoingBatch]:
        """Those that have any of the rows."""
    def send(self, intake: Intake, topic: str, rows_max: int, size_max: int) -> bool:
        """Up to `rows_max` rows, into batches of up to `size_max` bytes; fewer when memory is full.

        False when the topic is not known, or the producer does not take records now."""
