"""The log of decisions: a compacted topic with one key per sink.

A driver that opens the log for a sink first fences all earlier drivers, and only then reads what they have decided.  So a
driver that was thought dead cannot decide anything after another driver has taken over.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
from collections import OrderedDict
from zlib import crc32

from tidelog import errors
from tidelog.client.admin.topics import NewTopic
from tidelog.client.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from tidelog.client.consumer.range_reader import RangeReader
from tidelog.pipeline.clients import PipelineClients, clients
from tidelog.pipeline.options.sink import SinkOptions
from tidelog.pipeline.sink.decision import EpochDecision
from tidelog.pipeline.sink.producers import drop, new_producer
from tidelog.record.columns import RecordColumns
from tidelog.types import TopicPartition

PARTITIONS = 16
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A decision is one small record: a driver that cannot write it in this time counts as dead.  Other sinks with decisions in
# the same partition wait at most this long.
TIMEOUT_MS = 15_000
FETCH_BYTES = 1 << 20
KEPT_MAX = 32


class DecisionLog:
    """The decisions of one sink."""

    def __init__(self, options: SinkOptions, key: str) -> None:
        self._options = options
        self._key = key
        self._clients = clients(options.connection)
        count = self._clients.patiently(self._partitions)
        self._place = TopicPartition(options.decision_topic, crc32(key.encode()) % count)
        quick = dataclasses.replace(options, transaction_timeout_ms=TIMEOUT_MS)
        self._producer = new_producer(quick, f"tidelog/decisions/{key}")
        try:
            self.last = self._look_up()
        except BaseException:
            self.close()
            raise

    async def _partitions(self) -> int:
        admin, name = self._clients.admin, self._options.decision_topic
        try:
            topics = await admin.describe_topics([name])
        except errors.UnknownTopicOrPartition:
            try:
                await admin.create_topics([NewTopic(name, PARTITIONS, configs=CONFIGS)])
            except errors.TopicAlreadyExists:
                pass
            raise errors.LeaderNotAvailable(f"Topic {name!r} has just been created.") from None
        return len(topics[name].partitions)

    def _look_up(self) -> EpochDecision | None:
        connected, timeout_ms = self._clients, self._options.connection.timeout_ms
        first, end = (self._offset(connected, when, timeout_ms) for when in (EARLIEST, LATEST))
        reader = RangeReader(
            connected.cluster, read_committed=True, fetch_bytes=FETCH_BYTES, timeout_ms=timeout_ms
        )
        value: bytes | None = None
        for piece in connected.each(reader.pieces(self._place, first, end)):
            columns = RecordColumns()
            columns.add(*self._place, piece.data, piece.start, piece.aborted)
            value = _last_value(columns, self._key.encode(), value)
        return EpochDecision.from_bytes(value) if value else None

    def _offset(self, connected: PipelineClients, when: int, timeout_ms: int) -> int:
        offsets = connected.patiently(
            lambda: list_offsets(connected.cluster, {self._place: when}, timeout_ms)
        )
        return offsets[self._place].offset

    def write(self, decision: EpochDecision | None) -> None:
        """Writes a decision; None: the sink is never used again.  Fails if another driver has taken over."""
        value = None if decision is None else decision.to_bytes()
        with self._producer.transaction():
            sent = self._producer.send(
                self._place.topic, value, key=self._key.encode(), partition=self._place.partition
            )
        sent.get()
        self.last = decision

    def close(self) -> None:
        drop(self._producer)


def _last_value(columns: RecordColumns, key: bytes, before: bytes | None) -> bytes | None:
    import pyarrow
    import pyarrow.compute as pc

    batch = columns.record_batch()
    mine = batch.filter(pc.equal(batch.column("key"), pyarrow.scalar(key, pyarrow.binary())))
    if not mine.num_rows:
        return before
    last: bytes | None = mine.column("value")[mine.num_rows - 1].as_py()
    return last


_kept: OrderedDict[tuple[SinkOptions, str, str], DecisionLog] = OrderedDict()


def is_open(options: SinkOptions, key: str, run: str) -> bool:
    return (options, key, run) in _kept


def decisions_of(options: SinkOptions, key: str, run: str) -> DecisionLog:
    """The open log of a sink, kept for the life of a query in this process.  It does not see what another process of the
    same run decides meanwhile: but then this log is fenced, and `epoch_commit` opens it again."""
    place = options, key, run
    log = _kept.pop(place, None) or DecisionLog(options, key)
    _kept[place] = log
    while len(_kept) > KEPT_MAX:
        _kept.popitem(last=False)[1].close()
    return log


def forget(options: SinkOptions, key: str, run: str) -> None:
    """Closes the log after a failure, so that the decision is read again."""
    log = _kept.pop((options, key, run), None)
    if log is not None:
        log.close()


def _forked() -> None:
    _kept.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def close_all() -> None:
    while _kept:
        _kept.popitem()[1].close()
