"""Prints records: decodes them by a schema, leaves out those that a condition is not true for, keeps the last ones, or
groups them by key."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.record_format import Formatter
from tidelog.cli.records.schema_codec import BadValue, Codec, SchemaCodecs
from tidelog.cli.records.where import RecordFields
from tidelog.cli.session import Failure

if TYPE_CHECKING:
    from tidelog.aio import Record

GROUPED_RECORDS_MAX = 1_000_000
GROUPED_BYTES_MAX = 512 << 20


class DecodedRecord(NamedTuple):
    """`key` and `value`: bytes, or the JSON that a schema made of them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: Any
    value: Any
    headers: Sequence[tuple[str, bytes | None]]


class RecordPrinter:
    """`tail`: only the last records of all partitions, by timestamp.  `grouped`: the records of a key together, in the
    order of the keys' first records.  Both print when `finish` is called."""

    def __init__(
        self,
        out: IO[bytes],
        formatter: Formatter,
        codecs: SchemaCodecs,
        condition: Callable[[RecordFields], bool] | None,
        tail: int | None = None,
        grouped: bool = False,
    ) -> None:
        self.printed = 0
        self.first_problem: str | None = None
        self.problems = 0
        self._out = out
        self._formatter = formatter
        self._codecs = codecs
        self._condition = condition
        self._tail = tail
        self._last: list[tuple[int, int, Any]] = []  # a heap: the oldest first
        self._groups: dict[bytes | None, list[Any]] | None = {} if grouped else None
        self._held_bytes = 0
        self._taken = 0

    async def take(self, records: Sequence[Record], records_max: int | None) -> int:
        """How many of the records were looked at, before `records_max` were taken in all."""
        for codec, parts in (
            (self._codecs.key, [record.key for record in records]),
            (self._codecs.value, [record.value for record in records]),
        ):
            if codec is not None:
                await codec.prepare_reading(parts)
        looked_at = 0
        for record in records:
            if records_max is not None and self._taken >= records_max:
                break
            looked_at += 1
            shown = self._decoded(record)
            if self._condition is None or self._condition(RecordFields(record, shown.key, shown.value)):
                self._taken += 1
                self._keep(record, shown)
        if looked_at and not self.holds_back:
            self._out.flush()
        return looked_at

    @property
    def taken(self) -> int:
        """Records that the condition is true for."""
        return self._taken

    @property
    def holds_back(self) -> bool:
        return self._tail is not None or self._groups is not None

    def finish(self) -> None:
        """Prints the records that were held back; later ones are printed as they come."""
        for _, _, shown in sorted(self._last, key=lambda entry: entry[:2]):
            self._print(shown)
        for group in (self._groups or {}).values():
            for shown in group:
                self._print(shown)
        self._last, self._tail = [], None
        self._groups = None
        self._out.flush()

    def _keep(self, record: Record, shown: Any) -> None:
        if self._tail is not None:
            entry = (record.timestamp, self._taken, shown)
            if len(self._last) < self._tail:
                heapq.heappush(self._last, entry)
            elif self._tail:
                heapq.heappushpop(self._last, entry)
        elif self._groups is not None:
            self._held_bytes += len(record.key or b"") + len(record.value or b"")
            if self._taken > GROUPED_RECORDS_MAX or self._held_bytes > GROUPED_BYTES_MAX:
                raise Failure(
                    f"--group-by-key holds at most {GROUPED_RECORDS_MAX} records and {GROUPED_BYTES_MAX >> 20} MiB: read "
                    "fewer with --from, --until, --where or --max"
                )
            self._groups.setdefault(record.key, []).append(shown)
        else:
            self._print(shown)

    def _print(self, shown: Any) -> None:
        self._out.write(self._formatter(shown))
        self.printed += 1

    def _decoded(self, record: Record) -> Record | DecodedRecord:
        if self._codecs.key is None and self._codecs.value is None:
            return record
        return DecodedRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            self._part(self._codecs.key, record, record.key, "key"),
            self._part(self._codecs.value, record, record.value, "value"),
            record.headers,
        )

    def _part(self, codec: Codec | None, record: Record, data: bytes | None, name: str) -> Any:
        """What does not fit its schema stays bytes."""
        if codec is None or data is None:
            return data
        try:
            return codec.decode(data)
        except BadValue as problem:
            self.problems += 1
            where = f"the {name} at offset {record.offset} of partition {record.partition}"
            self.first_problem = self.first_problem or f"{where} was printed as it is: {problem}"
            return data
