"""Decodes values one by one, for formats without a columnar decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Failures = dict[int, str]
"""What is wrong with each bad row, by its index in the batch."""


def decode_rows(
    values: pa.BinaryArray, decode: Callable[[bytes], Any], kind: pa.StructType
) -> tuple[pa.StructArray, Failures]:
    """Decodes every value.  A null stays null; a value that cannot be decoded becomes null, and is in the failures."""
    import pyarrow as pa

    rows: list[Any] = []
    failures: Failures = {}
    for index, data in enumerate(values.to_pylist()):
        row = None
        if data is not None:
            try:
                row = decode(data)
            except Exception as problem:
                # Any error: the bytes may be anything, and so may the decoder's error.
                failures[index] = str(problem) or type(problem).__name__
        rows.append(row)
    try:
        return pa.array(rows, kind), failures
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        return _one_by_one(rows, kind, failures), failures


def _one_by_one(rows: list[Any], kind: pa.StructType, failures: Failures) -> pa.StructArray:
    """Finds the rows that do not fit the schema, and makes them null."""
    import pyarrow as pa

    for index, row in enumerate(rows):
        try:
            pa.array([row], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as problem:
            failures[index] = str(problem)
            rows[index] = None
    return pa.array(rows, kind)
