"""Records as a consumer hands them out, made natively."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from typing_extensions import Buffer

class Record:
    """A record as consumed.

    `key` and `value` are bytes or None, or what the consumer's deserializers made of them.  `timestamp` is in
    milliseconds; `timestamp_type` says who set it: the producer that created the record, or the broker that
    appended it.  `delivery_count` counts from 1 for a `ShareConsumer`, and is 0 elsewhere."""

    __match_args__ = (
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    )
    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: Literal["create", "append"],
        key: Any,
        value: Any,
        headers: Iterable[tuple[str, bytes | None]] = (),
        leader_epoch: int = -1,
        delivery_count: int = 0,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> Literal["create", "append"]: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def delivery_count(self) -> int: ...

def read(
    data: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    topic: str,
    partition: int,
    start: int,
    leader_epoch: int,
) -> list[Record]:
    """The records of one batch, from offset `start` on; `data` is its decompressed records section."""

def delivered(records: list[Record], count: int) -> None:
    """Sets the delivery count of records that nobody else has seen yet."""

def convert(
    records: list[Record],
    key: Callable[[str, bytes, bool], Any] | None,
    value: Callable[[str, bytes, bool], Any] | None,
) -> tuple[int, Exception | None]:
    """Replaces keys and values, where they are not null, by what the callables make of topic, bytes and whether it
    is a key; how many records that went well for, and what went wrong with the next."""
