"""Values that are decoded one by one, for formats that have no decoder of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Failures = dict[int, str]
"""What is wrong with a row, by its place in the batch."""


def decode_rows(
    values: pa.BinaryArray, decode: Callable[[bytes], Any], kind: pa.StructType
) -> tuple[pa.StructArray, Failures]:
    """A null stays one; a value that cannot be decoded is null, and among the failures."""
    import pyarrow as pa

    rows: list[Any] = []
    failures: Failures = {}
    for index, data in enumerate(values.to_pylist()):
        row = None
        if data is not None:
            try:
                row = decode(data)
            except Exception as problem:
                # Whatever a decoder has to say about bytes that anybody may have written.
                failures[index] = str(problem) or type(problem).__name__
        rows.append(row)
    try:
        return pa.array(rows, kind), failures
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        return _one_by_one(rows, kind, failures), failures


def _one_by_one(rows: list[Any], kind: pa.StructType, failures: Failures) -> pa.StructArray:
    """Some row does not fit the schema: which?"""
    import pyarrow as pa

    for index, row in enumerate(rows):
        try:
            pa.array([row], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as problem:
            failures[index] = str(problem)
            rows[index] = None
    return pa.array(rows, kind)
