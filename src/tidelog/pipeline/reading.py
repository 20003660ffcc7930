"""A task's work: a range of offsets, fetched and handed to Spark as Arrow record batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog import errors
from tidelog.client.consumer.range_reader import RangeReader
from tidelog.pipeline.clients import clients
from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.source_options import SourceOptions
from tidelog.pipeline.splits import Range
from tidelog.pipeline.worker_memory import task_done
from tidelog.record.columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("tidelog.pipeline")


def read_range(options: SourceOptions, wanted: Range) -> Iterator[pyarrow.RecordBatch]:
    """The records of the range, in the columns of `record.columns`.

    What retention or a deletion has taken is told as `failOnDataLoss` says."""
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
                f"offsets {start} to {min(first, wanted.end) - 1} of {wanted.partition} are gone: the log begins at "
                f"{first} now (retention, or records were deleted)",
            )
            start = first


def _batches(options: SourceOptions, wanted: Range, start: int) -> Iterator[tuple[Any, int]]:
    """Batches, each with the offset to go on with behind it."""
    here = clients(options.connection)
    reader = RangeReader(
        here.cluster,
        read_committed=options.read_committed,
        fetch_bytes=options.fetch_bytes,
        timeout_ms=options.connection.timeout_ms,
    )
    topic, index = wanted.partition
    for piece in here.each(reader.pieces(wanted.partition, start, wanted.end, wanted.topic_id)):
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
    """Offsets grow within a partition, so what lies behind the end is a tail."""
    import numpy

    offsets = batch.column("offset").to_numpy()
    return batch.slice(0, int(numpy.searchsorted(offsets, end)))


def _first(options: SourceOptions, wanted: Range) -> int:
    from tidelog.pipeline.survey import Survey

    return Survey(options).first([wanted.partition])[wanted.partition]


def lost(options: SourceOptions, what: str) -> None:
    """Raises or warns, as the option says."""
    if options.fail_on_data_loss:
        raise PipelineError(f"data was lost: {what}. To go on without it, set option failOnDataLoss to false")
    log.warning("data was lost, and the query goes on (failOnDataLoss is false): %s", what)
