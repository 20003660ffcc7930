"""What a reader of committed transactions sees, against a list: producers that interleave, commit and abort, with rolls,
compaction, restarts, kills and power losses in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.storage.compaction_logs import COMPACTED, CompactedLog
from tests.unit.storage.making import NAME, content
from tidelog.config import TopicConfig
from tidelog.record import BatchBuilder, Codec, Marker, Record, read_batches
from tidelog.record.builder import read_marker
from tidelog.replication.partition import Ending, Enlisted, HostedPartition
from tidelog.testing import VirtualDisk
from tidelog.types import Epoch, NodeId

KEPT = TopicConfig(segment_bytes=600, index_interval_bytes=100)
NODE = NodeId(1)
PRODUCERS = st.sampled_from([11, 12, 13])
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
PLAIN = -1


class Written(NamedTuple):
    """A record, or the end of a transaction (`commit` says how); `producer` PLAIN: outside of any."""

    producer: int
    key: bytes
    value: bytes
    commit: bool | None = None
    epoch: int = 0


@dataclass
class Instance:
    epoch: int = 0
    sequence: int = 0
    open: list[int] = field(default_factory=list)


class Model:
    """All that follows from the list."""

    def __init__(self, written: list[Written]) -> None:
        self.producers: dict[int, Instance] = {}
        self.aborted: set[int] = set()
        self.written = written
        for offset, each in enumerate(written):
            if each.producer == PLAIN:
                continue
            known = self.producers.setdefault(each.producer, Instance())
            if each.commit is None:
                known.open.append(offset)
                known.sequence += 1
                continue
            if each.commit is False:
                self.aborted.update(known.open)
            known.open = []
            if each.epoch != known.epoch:
                known.epoch, known.sequence = each.epoch, 0

    @property
    def stable(self) -> int:
        return min((each.open[0] for each in self.producers.values() if each.open), default=len(self.written))

    def committed(self) -> dict[int, tuple[bytes, bytes]]:
        return {
            offset: (each.key, each.value)
            for offset, each in enumerate(self.written[: self.stable])
            if each.commit is None and offset not in self.aborted
        }


def read_committed(partition: HostedPartition, bytes_max: int) -> Iterator[Record]:
    """As Kafka's consumer does it, with what a fetch tells it."""
    log, stable = partition.log, partition.last_stable
    offset = log.start
    while offset < stable:
        part = log.reader.read(offset, bytes_max, stable)
        if part is None:
            return
        told = sorted(log.aborted(offset, stable, part), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        start = offset
        for batch in read_batches(content(part)):
            header = batch.header
            while told and told[0].first_offset <= header.last_offset:
                aborted.add(told.pop(0).producer_id)
            records = [record for record in batch.records() if record.offset >= start]
            if header.control:
                for record in records:
                    end = read_marker(record)
                    assert end is not None
                    if end.marker is Marker.ABORT:
                        aborted.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in aborted):
                yield from records
            offset = header.last_offset + 1
        assert offset > start


class ReadCommitted(RuleBasedStateMachine):
    config = KEPT

    def __init__(self) -> None:
        super().__init__()
        self.it = CompactedLog(config=self.config)
        self.written: list[Written] = []
        self.stable_before = 0
        self.value = 0
        self._open()

    def _open(self) -> None:
        """Whoever starts, stops or recovers logs makes them durable before he goes on."""
        self.it.disk.sync_all("/data")
        self.partition = HostedPartition(NAME, bytes(16), NODE, self.it.log)
        self.partition.led(NODE, Epoch(0), frozenset((NODE,)), 1)

    def _fresh(self) -> bytes:
        self.value += 1
        return b"%d" % self.value

    def _batch(self, key: bytes, value: bytes, codec: Codec, **header: int) -> memoryview:
        builder = BatchBuilder()
        builder.add(key, value, self.it.volume.clock.now_ms())
        transactional = "producer_id" in header
        return memoryview(bytearray(builder.build(codec=codec, transactional=transactional, **header)))

    @rule(key=KEYS, codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
    def write(self, key: bytes, codec: Codec) -> None:
        value = self._fresh()
        self.partition.append(self._batch(key, value, codec), self.it.volume.clock.now_ms(), True)
        self.written.append(Written(PLAIN, key, value))

    @rule(
        producer=PRODUCERS,
        keys=st.lists(KEYS, min_size=1, max_size=3),
        codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    )
    def write_in_transaction(self, producer: int, keys: list[bytes], codec: Codec) -> None:
        for key in keys:
            known = Model(self.written).producers.get(producer, Instance())
            value = self._fresh()
            batch = self._batch(
                key,
                value,
                codec,
                producer_id=producer,
                producer_epoch=known.epoch,
                base_sequence=known.sequence,
            )
            enlisted = None if known.open else Enlisted(True)
            self.partition.append(batch, self.it.volume.clock.now_ms(), True, enlisted)
            self.written.append(Written(producer, key, value, epoch=known.epoch))

    @rule(producer=PRODUCERS, commit=st.booleans(), bumps=st.booleans())
    def end(self, producer: int, commit: bool, bumps: bool) -> None:
        known = Model(self.written).producers.get(producer)
        if known is None or not known.open:
            return
        epoch = known.epoch + bumps
        ending = Ending(producer, epoch, 0, commit, 2 if bumps else 0)
        self.partition.append_marker(ending, self.it.volume.clock.now_ms())
        self.written.append(Written(producer, b"", b"", commit, epoch))

    @rule()
    def roll(self) -> None:
        self.it.log.roller.roll()

    @rule()
    def restart(self) -> None:
        self.it.restart()
        self._open()

    @rule()
    def kill(self) -> None:
        assert isinstance(self.it.disk, VirtualDisk)
        self.it.disk.kill()
        self.it.recover(power_lost=False, recovery_point=self.it.log.recovery_point)
        self._open()

    @rule(flush=st.booleans())
    def lose_power(self, flush: bool) -> None:
        assert isinstance(self.it.disk, VirtualDisk)
        if flush:
            asyncio.run(self._flush())
        point = self.it.log.recovery_point
        self.it.disk.crash()
        self.it.recover(power_lost=True, recovery_point=point)
        self._open()
        assert self.it.log.end >= point
        del self.written[self.it.log.end :]
        self.stable_before = 0

    async def _flush(self) -> None:
        await self.it.log.flush()

    @invariant()
    def the_last_stable_offset_is_right_and_never_goes_back(self) -> None:
        stable = self.partition.last_stable
        assert stable == Model(self.written).stable
        assert stable >= self.stable_before
        self.stable_before = stable

    @invariant()
    def producers_are_known_as_they_are(self) -> None:
        for producer, known in Model(self.written).producers.items():
            here = self.partition.log.producers.get(producer)
            assert here is not None and here.epoch == known.epoch
            assert here.transaction_start == (known.open[0] if known.open else -1)

    @invariant()
    def readers_see_what_was_committed(self) -> None:
        committed = Model(self.written).committed()
        for bytes_max in (1, 300, 1 << 20):
            found = {
                record.offset: (record.key, record.value)
                for record in read_committed(self.partition, bytes_max)
            }
            assert found == committed


class ReadCommittedCompacted(ReadCommitted):
    config = COMPACTED

    @rule(ms=st.sampled_from([1, 400, 2_000]))
    def time_passes(self, ms: int) -> None:
        self.it.pass_ms(ms)

    @precondition(lambda self: len(self.written) > 3)
    @rule()
    def compact(self) -> None:
        self.it.stable = self.partition.last_stable
        asyncio.run(self.it.cleaner.clean_dirtiest())
        assert self.it.cleaner.counters.rounds_failed == 0

    @invariant()
    def readers_see_what_was_committed(self) -> None:
        committed = Model(self.written).committed()
        latest = dict(committed.values())
        for bytes_max in (1, 300, 1 << 20):
            found = {
                record.offset: (record.key, record.value)
                for record in read_committed(self.partition, bytes_max)
            }
            assert found.items() <= committed.items()
            assert dict(found[offset] for offset in sorted(found)) == latest


ReadCommitted.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
ReadCommittedCompacted.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestReadCommitted = ReadCommitted.TestCase
TestReadCommittedCompacted = ReadCommittedCompacted.TestCase
