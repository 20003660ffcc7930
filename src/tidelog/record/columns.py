"""Records as Arrow columns: fetched batches read into one record batch, and tables as rows to send.

The loops are native (`_speed.column_reader`, `_speed.column_writer`); here buffers become arrays and arrays
buffers, without a copy.  pyarrow is an optional dependency (`pip install 'tidelog[arrow]'`), loaded on first
use.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tidelog._speed.client.column_reader import Bytes, Columns
from tidelog._speed.client.column_writer import BytesColumn, HeadersColumn, Rows
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, decompress

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Buffer


def require_pyarrow() -> Any:
    """The pyarrow module; raises an error that says what to install if it is missing."""
    try:
        import pyarrow
    except ModuleNotFoundError as problem:
        if problem.name != "pyarrow":
            raise
        raise ModuleNotFoundError(
            "Arrow needs pyarrow: pip install 'tidelog[arrow]'", name="pyarrow"
        ) from None
    return pyarrow


@functools.cache
def schema() -> pyarrow.Schema:
    """The columns that `RecordColumns` makes."""
    pa = require_pyarrow()
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )


class RecordColumns:
    """Add what was fetched, partition after partition, then take `record_batch`, once.

    columns = RecordColumns()
    position = columns.add("orders", 0, fetched_bytes, start=42)
    table = columns.record_batch()
    """

    def __init__(self, *, check_crc: bool = True, size_max: int = DECOMPRESSED_BYTES_MAX) -> None:
        self._columns = Columns()
        self._topics: dict[str, int] = {}
        self._check_crc = check_crc
        self._size_max = size_max

    @property
    def rows(self) -> int:
        return self._columns.rows

    def add(
        self,
        topic: str,
        partition: int,
        data: Buffer,
        start: int = 0,
        aborted: Iterable[tuple[int, int]] = (),
        *,
        in_place: bool = False,
    ) -> int:
        """The records of every whole batch in `data` from offset `start` on; the offset to go on with.

        Control records are left out, and so are the records of `aborted` transactions, each a producer id and
        its first offset.  A batch that cannot be trusted raises `CorruptMessage` or `InvalidRecord`: those
        before it are in, and `position` is its place.

        `in_place`: nobody reads `data` afterwards, so its memory may become that of a column."""
        index = self._topics.setdefault(topic, len(self._topics))
        self._columns.add(data, index, partition, start, self._decompress, aborted, self._check_crc, in_place)
        return self._columns.position

    @property
    def position(self) -> int:
        """Where the last `add` stopped."""
        return self._columns.position

    def _decompress(self, codec: int, data: memoryview) -> Buffer:
        return decompress(codec, data, self._size_max)

    def record_batch(self) -> pyarrow.RecordBatch:
        pa = require_pyarrow()
        columns, rows = self._columns, self._columns.rows
        names = _bytes(pa, pa.string(), columns.header_names, columns.header_rows)
        values = _bytes(pa, pa.binary(), columns.header_values, columns.header_rows)
        kinds = schema()
        items = pa.StructArray.from_arrays(
            [names, values], fields=list(kinds.field("headers").type.value_type.fields)
        )
        topics = _texts(pa, self._topics)
        indices = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(columns.topics)])
        arrays = [
            _bytes(pa, pa.binary(), columns.keys, rows),
            _bytes(pa, pa.binary(), columns.values, rows),
            pa.DictionaryArray.from_arrays(indices, topics, safe=False),
            pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(columns.partitions)]),
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)]),
            pa.Array.from_buffers(
                kinds.field("timestamp").type, rows, [None, pa.py_buffer(columns.timestamps)]
            ),
            pa.Array.from_buffers(
                kinds.field("headers").type,
                rows,
                [None, pa.py_buffer(columns.header_offsets)],
                children=[items],
            ),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _bytes(pa: Any, kind: Any, column: Bytes, rows: int) -> Any:
    valid, offsets, content, nulls = column.buffers()
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def _texts(pa: Any, texts: Iterable[str]) -> Any:
    """`pa.array` would do, but loads pandas where that is installed: a second, for a handful of names."""
    encoded = [text.encode() for text in texts]
    ends = [0, *itertools.accumulate(map(len, encoded))]
    offsets = struct.pack(f"={len(ends)}i", *ends)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


# Rows of a table, for a producer


def rows_of(
    data: pyarrow.Table | pyarrow.RecordBatch,
    *,
    key: str | None,
    value: str | None,
    headers: str | None,
    timestamp: str | None,
    partition: int | str | None,
) -> Iterator[Rows]:
    """The rows of each chunk; arguments name columns, and `partition` may be a number for all of them.

    Keys and values are bytes or text, headers lists of names and values (or maps), timestamps are timestamps
    or milliseconds."""
    pa = require_pyarrow()
    names = [name for name in (key, value, headers, timestamp) if name is not None]
    if isinstance(partition, str):
        names.append(partition)
    for name in names:
        if name not in data.schema.names:
            there = ", ".join(map(repr, data.schema.names))
            raise ValueError(f"there is no column {name!r}: there are {there}")
    for chunk in data.to_batches() if isinstance(data, pa.Table) else [data]:
        columns = _RowColumns(pa, chunk)
        yield Rows(
            chunk.num_rows,
            columns.bytes_of(key),
            columns.bytes_of(value),
            columns.headers_of(headers),
            columns.numbers_of(timestamp, pa.int64()),
            columns.numbers_of(partition, pa.int32()) if isinstance(partition, str) else None,
            None if isinstance(partition, str) else partition,
        )


class _RowColumns:
    """The buffers of one chunk's columns, in the forms that `Rows` takes."""

    def __init__(self, pa: Any, chunk: Any) -> None:
        self._pa = pa
        self._chunk = chunk

    def bytes_of(self, name: str | None) -> BytesColumn | None:
        return None if name is None else self._bytes(name, self._chunk.column(name))

    def _bytes(self, name: str, array: Any) -> BytesColumn:
        pa = self._pa
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        try:
            plain = array.cast(pa.large_binary())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise TypeError(
                f"column {name!r} has type {array.type}: records are bytes, so cast it to binary or string first"
            ) from None
        valid, offsets, content = plain.buffers()
        if plain.null_count == 0:
            valid = None
        bits = None if valid is None else _octets(valid)
        return BytesColumn(_offsets(offsets), _octets(content), bits, plain.offset, len(plain))

    def headers_of(self, name: str | None) -> HeadersColumn | None:
        if name is None:
            return None
        pa, array = self._pa, self._chunk.column(name)
        kind = array.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
            raise TypeError(
                f"column {name!r} has type {kind}: headers are lists of names and values, or maps"
            )
        # A null list has no room of its own in the offsets that lists without nulls have.
        offsets = array.offsets.cast(pa.int64())
        if array.null_count:
            raise ValueError(f"column {name!r} has nulls: a record without headers has an empty list")
        items = (array.keys, array.items) if pa.types.is_map(kind) else self._pairs(name, array.values)
        names, values = (self._bytes(name, part) for part in items)
        raw = offsets.buffers()[1]
        return HeadersColumn(_offsets(raw), names, values, offsets.offset, len(array))

    def _pairs(self, name: str, items: Any) -> tuple[Any, Any]:
        kind = items.type
        if not self._pa.types.is_struct(kind) or kind.num_fields != 2:
            raise TypeError(f"column {name!r} has lists of {kind}: headers have a name and a value")
        return items.field(0), items.field(1)

    def numbers_of(self, name: str | None, kind: Any) -> memoryview | None:
        if name is None:
            return None
        array = self._chunk.column(name)
        if array.null_count:
            raise ValueError(f"column {name!r} has nulls: fill them first")
        if self._pa.types.is_timestamp(array.type):
            # Timestamps of records are in milliseconds: finer units are truncated.
            array = array.cast(self._pa.timestamp("ms", tz=array.type.tz), safe=False)
        array = array.cast(kind)
        width = kind.bit_width // 8
        raw = _octets(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
        return raw.cast("i") if width == 4 else raw.cast("q")


def _octets(buffer: Any) -> memoryview:
    return memoryview(b"" if buffer is None else buffer).cast("B")


def _offsets(buffer: Any) -> memoryview:
    view = _octets(buffer)
    return view[: len(view) // 8 * 8].cast("q")
