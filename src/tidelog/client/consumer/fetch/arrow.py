"""What was fetched, as one Arrow record batch.  Loaded when `poll_arrow` is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.record.columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow


def take_columns(fetcher: Fetcher, *, check_crc: bool) -> list[pyarrow.RecordBatch]:
    """One batch of everything that is buffered; none when that has no record to show."""
    columns = RecordColumns(check_crc=check_crc)
    stopped: set[AssignedPartition] = set()
    for state, start, fetched in fetcher.take_fetched():
        if state in stopped:
            continue
        topic, partition = state.partition
        try:
            columns.add(topic, partition, fetched.data, start, fetched.aborted or (), in_place=True)
        except (errors.CorruptMessage, errors.InvalidRecord) as problem:
            # The good records go out first; the next call meets the bad batch again, and the batches behind it.
            stopped.add(state)
            state.seek_back(columns.position)
            if not columns.rows:
                raise type(problem)(
                    f"{state.partition} at offset {columns.position}: {problem}; seek past it to continue"
                ) from problem
    return [columns.record_batch()] if columns.rows else []


def empty() -> pyarrow.RecordBatch:
    return RecordColumns().record_batch()
