"""A partition that this node holds: its log, what is known of its replicas, and who waits for it.

The only writer of its log.  Everything in `append` happens before the caller's first await, so requests that were
pipelined on one connection land in the order they were sent.  Called by handlers through `Partitions`."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.acceptance import sound
from tidelog._speed.batch import header_at, stamp
from tidelog._speed.tail import PartitionTail
from tidelog.config import TopicConfig
from tidelog.replication.acceptance import Rules, accept
from tidelog.replication.state import ReplicaState
from tidelog.replication.waiters import CommitWaits, FetchWait
from tidelog.storage.log import Log
from tidelog.storage.producers import Beginning
from tidelog.types import Epoch, NodeId, Offset, TopicPartition

CURRENT_EPOCH = -1
DUPLICATE_TIME = -1


# What a NamedTuple's constructor does, without its call: this is on the path of every produce request.
_appended = tuple.__new__


class Appended(NamedTuple):
    """`end` is past the last record; `durable` is there while the topic's own sync is under way."""

    base: Offset
    end: Offset
    append_time_ms: int
    durable: asyncio.Future[None] | None


class Partition(PartitionTail):
    __slots__ = ("_replica_count", "_rules", "index", "name", "topic", "topic_id")

    leader: NodeId | None
    log: Log
    state: ReplicaState
    commit_waits: CommitWaits
    fetch_waits: set[FetchWait]

    def __init__(self, name: TopicPartition, topic_id: bytes, node: NodeId, log: Log) -> None:
        self.name = name
        self.topic, self.index = name
        self.topic_id = topic_id
        self.log = log
        self.leader = None
        self.state = ReplicaState(node, Offset(log.start), Offset(log.end))
        self.commit_waits = CommitWaits()
        self.fetch_waits = set()
        self._replica_count = 1
        self._set_rules(log.config)

    # Leadership

    def led(
        self, leader: NodeId | None, epoch: Epoch, in_sync: frozenset[NodeId], replica_count: int
    ) -> None:
        """Metadata says who leads, in which epoch, and how many replicas there are and which are in sync."""
        self.leader = leader
        self._replica_count = replica_count
        self._set_rules(self.log.config)
        if leader == self.state.node:
            if epoch > self.state.epoch:
                self.log.epochs.assign(epoch, self.log.next)
            if self.state.led(epoch, in_sync):
                self._committed_moved(0)
        else:
            problem = errors.NotLeaderOrFollower(f"{self.name} is led by broker {leader} now")
            self.commit_waits.failed(problem)
        for wait in tuple(self.fetch_waits):
            wait.changed()

    def closed(self, problem: Exception) -> None:
        """Deleted, moved away or on a failed disk: nobody is left waiting."""
        self.leader = None
        self.commit_waits.failed(problem)
        for wait in tuple(self.fetch_waits):
            wait.changed()

    def moved(self, log: Log) -> None:
        """The same records in another directory."""
        assert (log.start, log.end) == (self.log.start, self.log.end)
        self.log = log
        self._set_rules(log.config)

    def check_epoch(self, epoch: int) -> None:
        """A client that knows of another epoch than ours must not be answered from this one."""
        if self.leader != self.state.node:
            raise errors.NotLeaderOrFollower(f"{self.name} is led by broker {self.leader}")
        if epoch != CURRENT_EPOCH and epoch != self.state.epoch:
            if epoch < self.state.epoch:
                raise errors.FencedLeaderEpoch(
                    f"{self.name} is in epoch {self.state.epoch}, not {epoch} any more"
                )
            raise errors.UnknownLeaderEpoch(f"{self.name} is in epoch {self.state.epoch}, not {epoch} yet")

    def reconfigure(self, config: TopicConfig) -> None:
        self.log.reconfigure(config)
        self._set_rules(config)

    def _set_rules(self, config: TopicConfig) -> None:
        self._rules = rules = Rules.of(config)
        self._plain = rules.plain
        self._batch_bytes_max = rules.batch_bytes_max
        # A topic with fewer replicas than its setting asks for could never be written otherwise.
        self._in_sync_min = min(config.min_insync_replicas, self._replica_count)
        # Far enough ahead to stand for no limit, without leaving 64 bits when the time is added.
        self._after_ms_max = min(rules.after_ms_max, 1 << 61)

    # Writing

    def append(self, data: memoryview, now_ms: int, in_sync_min: bool) -> Appended:
        """One batch of a producer.  `in_sync_min`: it asked for all replicas, so enough of them must be in sync."""
        state, log = self.state, self.log
        if self.leader != state.node:
            raise errors.NotLeaderOrFollower(f"{self.name} is led by broker {self.leader}")
        if in_sync_min and len(state.in_sync) < self._in_sync_min:
            raise errors.NotEnoughReplicas(
                f"{self.name} has {len(state.in_sync)} in-sync replicas, min.insync.replicas is "
                f"{log.config.min_insync_replicas}"
            )
        header = sound(data, self._batch_bytes_max, now_ms + self._after_ms_max)
        append_time = -1
        if header is None or not self._plain:
            data, header, max_timestamp_at = accept(data, self._rules, now_ms)
            if self._rules.append_time:
                append_time = header.max_timestamp
        else:
            max_timestamp_at = header.max_timestamp_at
        if header.producer_id >= 0:
            known = log.producers.check(header)
            if known is not None:
                # The first copy may still be on its way to the disk.
                durable = log.durable if known.last_offset >= log.end else None
                return Appended(
                    Offset(known.base_offset), Offset(known.last_offset + 1), append_time, durable
                )
        base = log.next
        stamp(data, 0, base, state.epoch)
        last = base + header.last_offset_delta
        try:
            pending = log.append(data, base, last, header.max_timestamp, base + max_timestamp_at, state.epoch)
        except errors.KafkaStorageError:
            if header.producer_id >= 0:
                first = header.producer_id, header.producer_epoch, header.base_sequence, header.max_timestamp
                log.producers.expect(Beginning(*first))
            raise
        if header.producer_id >= 0:
            log.producers.appended(header, base)
        if pending is None:
            self.wrote(len(data))
        else:
            size = len(data)
            pending.add_done_callback(lambda done: self._synced(done, size))
        return _appended(Appended, (base, last + 1, append_time, pending))

    def append_own(self, data: bytearray) -> Appended:
        """A batch that this broker made itself and that needs no checks: a coordinator's records, or a marker.  It is for
        all in-sync replicas, like what a producer sends with acks=all."""
        state, log = self.state, self.log
        self._check_writable()
        header = header_at(data)
        assert header is not None and header.size == len(data)
        if len(data) > self._batch_bytes_max:
            raise errors.RecordListTooLarge(
                f"{len(data)} bytes of records are too many for one batch of {self.name}: "
                f"max.message.bytes is {self._batch_bytes_max}"
            )
        base = log.next
        stamp(data, 0, base, state.epoch)
        last = base + header.last_offset_delta
        pending = log.append(data, base, last, header.max_timestamp, last, state.epoch)
        if header.producer_id >= 0 and not header.control:
            log.producers.appended(header, base)
        self._grew(len(data), pending)
        return Appended(Offset(base), Offset(last + 1), -1, pending)

    def _check_writable(self) -> None:
        """For what must be on all in-sync replicas."""
        state = self.state
        if self.leader != state.node:
            raise errors.NotLeaderOrFollower(f"{self.name} is led by broker {self.leader}")
        if len(state.in_sync) < self._in_sync_min:
            raise errors.NotEnoughReplicas(
                f"{self.name} has {len(state.in_sync)} in-sync replicas, min.insync.replicas is "
                f"{self.log.config.min_insync_replicas}"
            )

    def _grew(self, size: int, pending: asyncio.Future[None] | None) -> None:
        if pending is None:
            self.wrote(size)
        else:
            pending.add_done_callback(lambda done: self._synced(done, size))

    def _synced(self, done: asyncio.Future[None], size: int) -> None:
        if not done.cancelled() and done.exception() is None:
            self.wrote(size)

    def wrote(self, size: int) -> None:
        """The log grew by `size` bytes: commit what can be, wake who waits."""
        if self.state.appended(Offset(self.log.end)):
            self._committed_moved(size)

    def _committed_moved(self, size: int) -> None:
        if self.commit_waits.waiting:
            self.commit_waits.committed(self.state.committed)
        if self.fetch_waits:
            for wait in tuple(self.fetch_waits):
                wait.grew(size)

    def delete_records(self, before: int) -> int:
        """The new log start; `before` -1 stands for all that is committed."""
        if self.leader != self.state.node:
            raise errors.NotLeaderOrFollower(f"{self.name} is led by broker {self.leader}")
        if "delete" not in self.log.config.cleanup_policy:
            raise errors.PolicyViolation(
                f"{self.name} is compacted: its cleanup.policy does not allow deletion"
            )
        end = self.state.committed if before == -1 else before
        if not 0 <= end <= self.state.committed:
            raise errors.OffsetOutOfRange(
                f"{self.name} has records up to {self.state.committed}, not {before}"
            )
        self.log.advance_start(max(end, self.log.start))
        return self.log.start

    # Reading

    @property
    def last_stable(self) -> Offset:
        """What a reader of committed transactions may see: below the first transaction that is still open."""
        unstable = self.log.producers.first_unstable
        committed = self.state.committed
        return committed if unstable is None or unstable >= committed else Offset(unstable)

    def readable_end(self, read_committed: bool) -> Offset:
        return self.last_stable if read_committed else self.state.committed
