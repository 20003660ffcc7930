"""Where decisions are kept: a compacted topic, one key per sink.

Whoever opens it for a sink fences all who did before, and only then reads what they have decided.  So no driver that is
thought to be dead can decide behind the back of the one that has taken over.
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
from tidelog.pipeline.clients import Clients, clients
from tidelog.pipeline.decision import Decision
from tidelog.pipeline.producers import drop, new_producer
from tidelog.pipeline.sink_options import SinkOptions
from tidelog.record.columns import RecordColumns
from tidelog.types import TopicPartition

PARTITIONS = 16
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A decision is one small record: who does not get it through in this time is not there any more.  Others whose
# decisions are in the same partition wait for that long at most.
TIMEOUT_MS = 15_000
FETCH_BYTES = 1 << 20
KEPT_MAX = 32


class Decisions:
    """Of one sink."""

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
            found = await admin.describe_topics([name])
        except errors.UnknownTopicOrPartition:
            try:
                await admin.create_topics([NewTopic(name, PARTITIONS, configs=CONFIGS)])
            except errors.TopicAlreadyExists:
                pass
            raise errors.LeaderNotAvailable(f"topic {name!r} has just been made") from None
        return len(found[name].partitions)

    def _look_up(self) -> Decision | None:
        here, timeout_ms = self._clients, self._options.connection.timeout_ms
        first, end = (self._offset(here, when, timeout_ms) for when in (EARLIEST, LATEST))
        reader = RangeReader(
            here.cluster, read_committed=True, fetch_bytes=FETCH_BYTES, timeout_ms=timeout_ms
        )
        found: bytes | None = None
        for piece in here.each(reader.pieces(self._place, first, end)):
            columns = RecordColumns()
            columns.add(*self._place, piece.data, piece.start, piece.aborted)
            found = _last_value(columns, self._key.encode(), found)
        return Decision.from_bytes(found) if found else None

    def _offset(self, here: Clients, when: int, timeout_ms: int) -> int:
        found = here.patiently(lambda: list_offsets(here.cluster, {self._place: when}, timeout_ms))
        return found[self._place].offset

    def write(self, decision: Decision | None) -> None:
        """None: the sink will not be heard of again.  Fails when another driver has taken over."""
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


_kept: OrderedDict[tuple[SinkOptions, str, str], Decisions] = OrderedDict()


def is_open(options: SinkOptions, key: str, run: str) -> bool:
    return (options, key, run) in _kept


def decisions_of(options: SinkOptions, key: str, run: str) -> Decisions:
    """Kept for the life of a query in this process.  What another process of the same run has decided meanwhile is not
    known here: but then this one is fenced, and `committing` opens it anew."""
    place = options, key, run
    found = _kept.pop(place, None) or Decisions(options, key)
    _kept[place] = found
    while len(_kept) > KEPT_MAX:
        _kept.popitem(last=False)[1].close()
    return found


def forget(options: SinkOptions, key: str, run: str) -> None:
    """After a failure: what is decided has to be read again."""
    found = _kept.pop((options, key, run), None)
    if found is not None:
        found.close()


def _forked() -> None:
    _kept.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def close_all() -> None:
    while _kept:
        _kept.popitem()[1].close()
