"""Records as an Arrow table, for sinks that write columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.connect.records import ConnectRecord
from tidelog.extras import MissingPackage


def table_of(records: Sequence[ConnectRecord]) -> Any:
    """The coordinates of each record, then the fields of the values; a value without fields is the column `value`."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackage("this sink needs pyarrow: pip install 'tidelog[arrow]'") from None
    columns: dict[str, list[Any]] = {
        "__topic": [record.topic for record in records],
        "__partition": [record.partition for record in records],
        "__offset": [record.offset for record in records],
        "__timestamp": [record.timestamp for record in records],
    }
    names: dict[str, None] = {}
    rows = [record.value if isinstance(record.value, dict) else {"value": record.value} for record in records]
    for row in rows:
        names.update(dict.fromkeys(row))
    columns.update({name: [row.get(name) for row in rows] for name in names})
    return pyarrow.table(columns)
