"""The work of a task that reads: fetches an offset range and hands it to Spark as Arrow record batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog import errors
from tidelog.client.consumer.range_reader import RangeReader
from tidelog.pipeline.clients import clients
from tidelog.pipeline.options.source import SourceOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.offset_ranges import OffsetRange
from tidelog.pipeline.worker_memory import task_done
from tidelog.record.columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("tidelog.pipeline")


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pyarrow.RecordBatch]:
    """The records of the range, in the columns of `record.columns`.

    Records that retention or a deletion has removed are an error or a warning, as `failOnDataLoss` says."""
    start = wanted.start
    while start < wanted.end:
        try:
            for batch, behind in _batches(options, wanted, start):
                start = behind
                if batch.num_rows:
                    yield batch
            task_done()
            return
        except errors.UnknownTopicOrPartition as problem:
            lost(options, f"{wanted.partition} cannot be read from {start} to {wanted.end}: {problem}")
            return
        except errors.OffsetOutOfRange as problem:
            first = _first(options, wanted)
            if not start < first:
                lost(options, str(problem))
                return
            lost(
                options,
                f"offsets {start} to {min(first, wanted.end) - 1} of {wanted.partition} are gone: the log now begins at "
                f"{first} (retention, or deleted records)",
            )
            start = first


def _batches(options: SourceOptions, wanted: OffsetRange, start: int) -> Iterator[tuple[Any, int]]:
    """Batches, each with the offset that follows it."""
    connected = clients(options.connection)
    reader = RangeReader(
        connected.cluster,
        read_committed=options.read_committed,
        fetch_bytes=options.fetch_bytes,
        timeout_ms=options.connection.timeout_ms,
    )
    topic, index = wanted.partition
    for piece in connected.each(reader.pieces(wanted.partition, start, wanted.end, wanted.topic_id)):
        columns = RecordColumns()
        try:
            columns.add(topic, index, piece.data, piece.start, piece.aborted)
        except (errors.CorruptMessage, errors.InvalidRecord) as problem:
            raise PipelineError(
                f"{wanted.partition} has damaged bytes at offset {columns.position}: {problem}; read around them "
                "with the options 'starting' and 'ending'"
            ) from problem
        batch = columns.record_batch()
        yield batch if piece.end <= wanted.end else _below(batch, wanted.end), piece.end


def _below(batch: Any, end: int) -> Any:
    """The batch without the records from `end` on; they are at its end, since offsets grow within a partition."""
    import numpy

    offsets = batch.column("offset").to_numpy()
    return batch.slice(0, int(numpy.searchsorted(offsets, end)))


def _first(options: SourceOptions, wanted: OffsetRange) -> int:
    from tidelog.pipeline.source.offset_reader import OffsetReader

    return OffsetReader(options).first([wanted.partition])[wanted.partition]


def lost(options: SourceOptions, description: str) -> None:
    """Raises an error or logs a warning, as the option failOnDataLoss says."""
    if options.fail_on_data_loss:
        raise PipelineError(
            f"data was lost: {description}. To continue without it, set option failOnDataLoss to false"
        )
    log.warning("Data was lost, and the query continues (failOnDataLoss is false): %s", description)
