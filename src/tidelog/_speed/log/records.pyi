"""The records inside a batch: checked, and read into columns or `Record` objects.

`data` is always the decompressed records section of one batch, `count` what its header announces."""

from array import array
from collections.abc import Iterable

from typing_extensions import Buffer

from tidelog.errors import InvalidRecord

class BadRecord(InvalidRecord):
    """`index` is the record's place in its batch, for the answer to the producer; -1 when it is the batch."""

    index: int
    def __init__(self, message: str, index: int = -1) -> None: ...

class Record:
    """A record as read: `headers` are (name, value) pairs; keys, values and header values may be None."""

    __match_args__ = ("offset", "timestamp", "key", "value", "headers")
    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...

def check(data: Buffer, count: int, keys_required: bool) -> tuple[int, int, int]:
    """A producer's records, all of their structure; offset deltas must be 0, 1, 2...  `BadRecord` if not so.

    (largest timestamp delta, offset delta of the first record that has it, smallest timestamp delta)."""

def keyless(data: Buffer, count: int, most: int) -> list[int]:
    """Places of records without a key; the first `most` of them."""

def untimely(
    data: Buffer, count: int, base_timestamp: int, oldest: int, newest: int, most: int
) -> list[tuple[int, int]]:
    """Place and timestamp of records that are older than `oldest` or newer than `newest`; the first `most` of them.  No
    timestamp (-1) is not old."""

def first_at(
    data: Buffer, count: int, base_timestamp: int, timestamp: int, delta_min: int
) -> tuple[int, int] | None:
    """Offset delta and timestamp of the first record that is not older than `timestamp`, from `delta_min` on."""

def schema_ids(
    data: Buffer, count: int, of_keys: bool, ids_max: int, most: int
) -> tuple[dict[int, list[int]], list[int]] | None:
    """Each schema id in the records' values, or keys, with the places of records that name it, and the places of records
    whose content names none; the first `most` places of each.  None: more than `ids_max` ids.  Null has no schema."""

def columns(data: Buffer, count: int, base_offset: int, base_timestamp: int) -> tuple[array[int], ...]:
    """Eight int64 columns: offsets, timestamps, then where each part is in `data`: keys, key sizes, values,
    value sizes (-1: null), headers, header counts."""

def read(
    data: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None = None,
    first: int = ...,
    last: int = ...,
) -> list[Record]:
    """`append_timestamp`: log-append time, which then stands for every record's own.  `first`, `last`: the offsets that are
    wanted."""

def headers_at(data: Buffer, at: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers that `columns` has found at position `at`."""
