"""Decodes JSON values to columns.  Arrow's parser reads all values of a batch at once.

Each value is wrapped as {"v": [...]}, so that an empty value, several values in one, or a value with trailing text cannot
pass, and cannot shift the rows after it.  If a value could end the wrapping and begin a field beside "v" (`{}], "x": [`),
all values are wrapped with a marker after them, whose name is random and which must still be there.  A batch with a bad
value is halved until the bad values are alone.  Schemas that Arrow's parser does not support (maps, binary) are decoded row
by row.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from tidelog.pipeline.values.row_decoding import Failures, decode_rows

# Numbers that JSON does not have are text, as Spark's `to_json` writes them.
NO_NUMBERS_TEXT = ("NaN", "Infinity", "-Infinity")
NO_NUMBERS = tuple(f'"{text}"'.encode() for text in NO_NUMBERS_TEXT)
# An object in a list, with a field after it.  Any value that leaves its wrapping contains this; so do harmless values with
# lists of objects, whose batches take a little longer.
LEAVES = r'\}\s*\]\s*,\s*"'
MARK = secrets.token_hex(16)
ZONED = r"(Z|[+-]\d\d(:?\d\d)?)$"


class JsonDecoder:
    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._by_row = _needs_rows(kind)
        self._floats = _has_floats(kind)
        self._parsed_kind = _parsed_kind(kind)

    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]:
        if self._by_row:
            return decode_rows(values, _row_decoder(self._kind), self._kind)
        failures: Failures = {}
        pieces = self._decode(values, 0, failures)
        return pa.concat_arrays(pieces) if len(pieces) != 1 else pieces[0], failures

    def _decode(self, values: pa.BinaryArray, at: int, failures: Failures) -> list[pa.StructArray]:
        try:
            return [self._parse(values)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            count = len(values)
            if count == 1 and self._floats and any(text in values[0].as_py() for text in NO_NUMBERS):
                decoded, wrong = decode_rows(values, _row_decoder(self._kind), self._kind)
                failures |= {at + index: reason for index, reason in wrong.items()}
                return [decoded]
            if count == 1:
                failures[at] = str(problem).removeprefix("JSON parse error: ").removesuffix(" in row 0")
                return [pa.nulls(1, self._kind)]
            half = count // 2
            return [
                *self._decode(values.slice(0, half), at, failures),
                *self._decode(values.slice(half), at + half, failures),
            ]

    def _parse(self, values: pa.BinaryArray) -> pa.StructArray:
        if not len(values):
            return pa.nulls(0, self._kind)
        marked = bool(pc.any(pc.match_substring_regex(values, LEAVES)).as_py())
        kind = self._parsed_kind
        if marked:
            kind = pa.struct([*kind, pa.field(MARK, pa.bool_())])
        end = f',{{"{MARK}":true}}]}}\n'.encode() if marked else b"]}\n"
        lists = _lists(values, end, kind)
        if len(lists) != len(values) or pc.max(pc.list_value_length(lists)).as_py() != 1 + marked:
            raise pa.ArrowInvalid("a value is exactly one JSON object")
        objects = lists.flatten()
        if marked:
            objects = _without_marks(objects)
        if len(objects) != len(values) or objects.null_count != values.null_count:
            raise pa.ArrowInvalid("a value is one JSON object, not nothing")
        return _converted(objects, self._kind)


def _lists(values: pa.BinaryArray, end: bytes, kind: pa.StructType) -> pa.ListArray:
    """The objects in each wrapping."""
    before, behind, nothing = (pa.scalar(text, pa.binary()) for text in (b'{"v":[', end, b""))
    wrapped = pc.binary_join_element_wise(
        before, values, behind, nothing, null_handling="replace", null_replacement=b"null"
    )
    text = wrapped.buffers()[2]
    table = pyarrow.json.read_json(
        pa.BufferReader(text),
        # One block: values may have line breaks in them.
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([("v", pa.list_(kind))]), unexpected_field_behavior="ignore"
        ),
    )
    return table.column("v").combine_chunks()


def _without_marks(marked: pa.StructArray) -> pa.StructArray:
    """The objects without the markers, which are every second element."""
    marks = marked.field(MARK)
    if len(marked) % 2 or marks.null_count * 2 != len(marked) or marks[1::2].null_count:
        raise pa.ArrowInvalid("a value is one JSON object, without further text")
    objects = marked[::2]
    kept = [field for field in marked.type if field.name != MARK]
    return pa.StructArray.from_arrays(
        [objects.field(field.name) for field in kept], fields=kept, mask=objects.is_null()
    )


def _needs_rows(kind: Any) -> bool:
    if pa.types.is_map(kind) or pa.types.is_binary(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_needs_rows(field.type) for field in kind)
    return pa.types.is_list(kind) and _needs_rows(kind.value_type)


def _has_floats(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return pa.types.is_floating(kind) or (pa.types.is_list(kind) and _has_floats(kind.value_type))


def _parsed_kind(kind: Any) -> Any:
    """The type for the parser: times are read as text first, because the parser takes them only with a zone or only
    without."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _parsed_kind(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _parsed_kind(kind.value_type)))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _converted(array: Any, kind: Any) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type == kind:
        return array
    valid = None if array.null_count == 0 else array.is_null()
    if pa.types.is_struct(kind):
        fields = [_converted(array.field(index), field.type) for index, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=valid)
    if pa.types.is_list(kind):
        values = _converted(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=valid)
    if pa.types.is_timestamp(kind):
        return _timestamps(array, kind)
    return array.cast(kind)


def _timestamps(texts: Any, kind: Any) -> Any:
    """Converts times with a zone, or without a zone, which means UTC."""
    zoned, nothing = pc.match_substring_regex(texts, ZONED), pa.scalar(None, pa.string())
    plain = pa.timestamp(kind.unit)
    utc = pa.timestamp(kind.unit, tz="UTC")
    with_zone = pc.if_else(zoned, texts, nothing).cast(utc)
    without = pc.assume_timezone(pc.if_else(zoned, nothing, texts).cast(plain), "UTC")
    both = pc.coalesce(with_zone, without)
    return both.cast(kind) if kind.tz is not None else both.cast(plain)


# Row by row


def _row_decoder(kind: pa.StructType) -> Callable[[bytes], Any]:
    convert = _converter(kind)

    def decode(data: bytes) -> Any:
        value = json.loads(data, parse_float=Decimal)
        if not isinstance(value, dict):
            raise ValueError(f"an object is needed, not {data[:40].decode(errors='replace')}")
        return convert(value)

    return decode


def _converter(kind: Any) -> Callable[[Any], Any]:
    """Converts what JSON parses to what Arrow accepts."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _converter(field.type)) for field in kind]
        return lambda value: {
            name: None if value.get(name) is None else convert(value[name]) for name, convert in fields
        }
    if pa.types.is_list(kind):
        element = _converter(kind.value_type)
        return lambda value: [None if entry is None else element(entry) for entry in value]
    if pa.types.is_map(kind):
        item, number = _converter(kind.item_type), pa.types.is_integer(kind.key_type)
        return lambda value: [
            (int(name) if number else name, None if entry is None else item(entry))
            for name, entry in value.items()
        ]
    if pa.types.is_binary(kind):
        return lambda value: base64.b64decode(value, validate=True)
    if pa.types.is_timestamp(kind):
        return _moment
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(str(value))
    if pa.types.is_floating(kind):
        return lambda value: float(value) if isinstance(value, Decimal) or value in NO_NUMBERS_TEXT else value
    return lambda value: value


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
