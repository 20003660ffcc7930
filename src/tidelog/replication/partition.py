"""A partition that this broker holds as leader or follower: its log, its replicas, its high watermark, and the requests
that wait for it.

The only writer of its log.  Everything in `append` happens before the caller's first await, so requests that were
pipelined on one connection land in the order they were sent.  Called by handlers through `Partitions`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.log.acceptance import sound
from tidelog._speed.log.append import NativePartition
from tidelog._speed.log.batch import Header
from tidelog._speed.log.commit_waits import CommitWaits
from tidelog.config import TopicConfig
from tidelog.record.builder import EndMarker, Marker, build_marker
from tidelog.record.conditions import Expectation
from tidelog.record.reader import Batch
from tidelog.replication.acceptance import Accepted, Rules, accept
from tidelog.replication.commit_status import Appended, appended_before, not_led, too_few
from tidelog.replication.delayed_fetch import FetchWait
from tidelog.replication.follower_fetch import runs
from tidelog.replication.key_versions import KeyVersions, checked_versions
from tidelog.replication.replica_state import ReplicaState
from tidelog.replication.throttle import throttled
from tidelog.storage.log import Log
from tidelog.storage.log_state import RemotePart
from tidelog.types import Epoch, NodeId, Offset, TopicPartition

CURRENT_EPOCH = -1
DUPLICATE_TIME = -1


# What a NamedTuple's constructor does, without its call: this is on the path of every produce request.
_appended = tuple.__new__


def _max_timestamp(batch: Batch) -> int:
    return batch.header.max_timestamp


class Ending(NamedTuple):
    """How a producer's transaction ends, as its coordinator says; `version` is that of the transaction protocol."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool
    version: int


class Enlisted(NamedTuple):
    """The coordinator has this partition in the producer's transaction.  `from_the_first`: and every transaction has an
    epoch of its own, so it begins with its first batch."""

    from_the_first: bool


def _admit(partition: HostedPartition, header: Header, size: int) -> None:
    """Raises the refusal of a queue that has no room for the batch."""
    if len(partition.admissions) < partition.rules.admissions:
        raise errors.LeaderNotAvailable(
            f"{partition.name}: the state of the queue is being loaded: try again"
        )
    for admit in partition.admissions.values():
        admit(header, size)


class HostedPartition(NativePartition):
    __slots__ = (
        "_rules",
        "_told",
        "_unstable",
        "admissions",
        "in_sync_here",
        "index",
        "key_versions",
        "loading_versions",
        "name",
        "replica_count",
        "throttled_in",
        "throttled_out",
        "topic_id",
    )

    leader: NodeId | None
    log: Log
    state: ReplicaState
    commit_waits: CommitWaits
    fetch_waits: dict[FetchWait, None]  # in the order they came: who waits longest is answered first
    follower_waits: dict[FetchWait, None]

    def __init__(
        self, name: TopicPartition, topic_id: bytes, node: NodeId, log: Log, committed: int = 0
    ) -> None:
        """`committed`: what was known of it before, if anything."""
        self.name = name
        self.topic, self.index = name
        self.topic_id = topic_id
        self.log = log
        self.leader = None
        committed_here = min(max(committed, log.local_start), log.end)
        self.state = ReplicaState(node, Offset(committed_here), Offset(log.end))
        self.commit_waits = CommitWaits()
        self.fetch_waits = {}
        self.follower_waits = {}
        # The leader's last word on what is committed, and where its log starts.
        self._told = Offset(0), Offset(0)
        self.replica_count = 1
        # By share group: whether a queue takes a batch of this size; raises PolicyViolation.
        self.admissions: dict[str, Callable[[Header, int], None]] = {}
        self._unstable: int | None = None  # as it was when readers were last told
        self.key_versions: KeyVersions | None = (
            None  # of topics with conditional.append.enable; None: not read
        )
        self.loading_versions: asyncio.Task[None] | None = None
        self.in_sync_here = False  # whether this replica is in the stored in-sync set
        self._set_rules(log.config)

    # Leadership

    def led(
        self,
        leader: NodeId | None,
        epoch: Epoch,
        in_sync: frozenset[NodeId],
        replica_count: int,
        doubted: frozenset[NodeId] = frozenset(),
        others_eligible: bool = False,
    ) -> None:
        """Metadata says who leads, in which epoch, how many replicas there are, which are in sync and which in doubt, and
        whether there are eligible leaders outside of the in-sync set."""
        news = leader != self.leader or epoch != self.state.epoch
        self.leader = leader
        self.in_sync_here = self.state.node in in_sync
        self.replica_count = replica_count
        self._set_rules(self.log.config)
        self._told = Offset(0), Offset(0)
        if leader == self.state.node:
            self.state.end = Offset(self.log.end)
            if epoch > self.state.epoch:
                self.log.epochs.assign(epoch, self.log.next)
            if self.state.led(epoch, in_sync, doubted, others_eligible):
                self._committed_moved(0)
        else:
            self.state.followed(epoch)
            self.commit_waits.failed(not_led(self))
        if news:
            self.key_versions = None
            self.wake_fetches()

    def closed(self, problem: Exception) -> None:
        """Deleted, moved away or on a failed disk: nobody is left waiting."""
        self.leader = None
        self.commit_waits.failed(problem)
        self.wake_fetches()

    def wake_fetches(self) -> None:
        for wait in (*self.fetch_waits, *self.follower_waits):
            wait.changed()

    def moved(self, log: Log) -> None:
        """The same records in another directory."""
        assert (log.start, log.end) == (self.log.start, self.log.end)
        self.log = log
        self._set_rules(log.config)

    def check_epoch(self, epoch: int, leading: bool = True) -> None:
        """A client that knows of another epoch than ours must not be answered from this one; nor from a replica that
        does not lead, unless it says that this will do."""
        if leading and self.leader != self.state.node:
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

    @property
    def rules(self) -> Rules:
        return self._rules

    def _set_rules(self, config: TopicConfig) -> None:
        self._rules = rules = Rules.of(config)
        if not rules.conditional:
            self.key_versions = None
        self._plain = rules.plain
        self._batch_bytes_max = rules.batch_bytes_max
        # A topic with fewer replicas than its setting asks for could never be written otherwise.
        in_sync_min = min(config.min_insync_replicas, self.replica_count)
        if self.state.need(in_sync_min) and self.leader == self.state.node:
            self._committed_moved(self.log.size)
        # Far enough ahead to stand for no limit, without leaving 64 bits when the time is added.
        self._after_ms_max = min(rules.after_ms_max, 1 << 61)
        node = self.state.node
        self.throttled_out = throttled(config.leader_replication_throttled_replicas, self.index, node)
        self.throttled_in = throttled(config.follower_replication_throttled_replicas, self.index, node)

    # Writing

    def append(
        self,
        data: memoryview,
        now_ms: int,
        in_sync_min: bool,
        enlisted: Enlisted | None = None,
        opened: Accepted | errors.TidelogError | None = None,
    ) -> Appended:
        """One batch of a producer.  `in_sync_min`: it asked for all replicas, so enough of them must be in sync.  A
        batch in a transaction needs one that is open here, or `enlisted`.  `opened`: what `accept` has said of it before;
        otherwise it is asked here."""
        state, log = self.state, self.log
        self._check_writable(in_sync_min)
        header = sound(data, self._batch_bytes_max, now_ms + self._after_ms_max) if opened is None else None
        append_time = -1
        expected: Sequence[Expectation] = ()
        if header is None or not self._plain:
            if isinstance(opened, errors.TidelogError):
                raise opened
            data, header, max_timestamp_at, expected = opened or accept(data, self._rules, now_ms)
            if header.log_append_time:
                append_time = header.max_timestamp
        else:
            max_timestamp_at = header.max_timestamp_at
        if header.producer_id >= 0:
            first_copy = log.producers.check(header)
            if first_copy is not None:
                # The first copy may still be on its way to the disk.
                durable = log.appender.durable if first_copy.last_offset >= log.end else None
                end = first_copy.last_offset + 1
                copy = appended_before(self, first_copy.base_offset, end, durable)
                return copy._replace(append_time_ms=append_time)
            if header.transactional and not log.producers.has_open(header.producer_id, header.producer_epoch):
                if enlisted is None:
                    raise errors.InvalidTxnState(f"{self.name} is not part of a transaction of the producer")
                log.producers.check_begin(header, enlisted.from_the_first)
        if self._rules.admissions:
            _admit(self, header, len(data))
        base = log.next
        versions = checked_versions(self, expected) if self._rules.conditional else None
        pending = self.append_led(data, header, max_timestamp_at, now_ms)
        if versions is not None:
            versions.appended(expected, base)
        if pending is not None:
            self._wait_for_sync(pending, len(data))
        end = base + header.last_offset_delta + 1
        return _appended(Appended, (base, end, append_time, pending, state.epoch))

    def append_own(self, data: bytearray) -> Appended:
        """A batch that this broker made itself and that needs no checks: a coordinator's records, or a marker.  It is for
        all in-sync replicas, like what a producer sends with acks=all."""
        state, log = self.state, self.log
        self._check_writable(by_all=True)
        if len(data) > self._batch_bytes_max:
            raise errors.RecordListTooLarge(
                f"{len(data)} bytes of records are too many for one batch of {self.name}: "
                f"max.message.bytes is {self._batch_bytes_max}"
            )
        base = log.next
        pending = self.append_made(data)
        if pending is not None:
            self._wait_for_sync(pending, len(data))
        return _appended(Appended, (base, log.next, -1, pending, state.epoch))

    def append_marker(self, ending: Ending, now_ms: int) -> Appended:
        """The end of a producer's transaction here."""
        log, state = self.log, self.state
        self._check_writable(by_all=True)
        producer_id, epoch, coordinator_epoch, commit, version = ending
        log.producers.check_end(producer_id, epoch, coordinator_epoch, version)
        marker = EndMarker(Marker.COMMIT if commit else Marker.ABORT, coordinator_epoch)
        data = bytearray(
            build_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp=now_ms)
        )
        base = log.next
        aborted = None if commit else log.producers.aborted_at(producer_id, base)
        if aborted is not None:
            log.appender.index_abort(data, now_ms, aborted)
        try:
            pending = self.append_unannounced(data)
        except errors.KafkaStorageError:
            if aborted is not None:
                log.appender.forget_abort(base)
            raise
        # Readers that are told of the marker must find the transaction ended.
        log.producers.ended(producer_id, epoch, coordinator_epoch, base, now_ms)
        if pending is None:
            self.wrote(len(data))
        else:
            self._wait_for_sync(pending, len(data))
        log.producers.committed(state.committed)
        return Appended(Offset(base), Offset(base + 1), -1, pending, state.epoch)

    def _check_writable(self, by_all: bool) -> None:
        """`by_all`: it is acknowledged when all in-sync replicas have it, so enough of them must be in sync."""
        if self.accepts_appends(by_all):
            return
        if self.leader != self.state.node:
            raise errors.NotLeaderOrFollower(f"{self.name} is led by broker {self.leader}")
        raise errors.NotEnoughReplicas(too_few(self))

    def _wait_for_sync(self, pending: asyncio.Future[None], size: int) -> None:
        pending.add_done_callback(lambda done: self._synced(done, size))

    def _synced(self, done: asyncio.Future[None], size: int) -> None:
        if not done.cancelled() and done.exception() is None:
            self.wrote(size)
        else:
            self.key_versions = None  # they have records that the log has not: read them again

    def wrote(self, size: int) -> None:
        """The log grew by `size` bytes: commit what can be, wake who waits."""
        if self.state.appended(Offset(self.log.end)):
            self._committed_moved(size)
        if self.follower_waits:
            for wait in tuple(self.follower_waits):
                wait.grew(size)

    def _committed_moved(self, size: int) -> None:
        if self.commit_waits.waiting:
            self.commit_waits.committed(self.state.committed)
        if self.fetch_waits:
            self._wake_readers(size)

    def _wake_readers(self, size: int) -> None:
        before = self._unstable
        self._unstable = after = self.log.producers.unstable_below(self.state.committed)
        for wait in tuple(self.fetch_waits):
            if not wait.read_committed or before is None is after:
                wait.grew(size)
            elif before is not None and after != before:
                wait.changed()  # a transaction ended, and more than its marker can be seen

    # Waiting for records

    def wait_for_more(self, wait: FetchWait, follows: bool) -> None:
        if follows:
            self.follower_waits[wait] = None
        if not follows or len(self.state.in_sync) == 1:
            # With nobody else in sync every append commits, and there is one way to learn of that.
            self.fetch_waits[wait] = None
        self._unstable = self.log.producers.unstable_below(self.state.committed)

    # Replicating, as the leader

    def follower_fetched(self, node: NodeId, offset: Offset, now_ms: int) -> None:
        """A follower asks for `offset` in this epoch: it has all before."""
        before = self.state.committed
        if self.state.follower_fetched(node, min(offset, Offset(self.log.end)), now_ms):
            # How many bytes that are is not worth finding out: readers look for themselves.
            self._committed_moved(self.log.size if before < self.state.committed else 0)

    def propose(self, in_sync: frozenset[NodeId]) -> None:
        """The set is about to be stored; `settled` when it is known what came of it."""
        self.state.propose(in_sync)

    def settled(self) -> None:
        if self.state.settled():
            self._committed_moved(self.log.size)

    # Replicating, as a follower

    def replicate(self, data: memoryview) -> None:
        """Batches as the leader has them, from `log.next` on; one that is cut at the end is left for the next fetch."""
        log = self.log
        self.replicated_in += len(data)
        for run in runs(data, log.next, log.config.segment_bytes):
            first, last, newest = run[0].header, run[-1].header, max(run, key=_max_timestamp).header
            if first.base_offset < log.next:
                raise errors.InvalidRecord(
                    f"{self.name} ends at {log.next} and its leader sent a batch from {first.base_offset}"
                )
            pending = log.append(
                data[first.position : last.position + last.size],
                first.base_offset,
                last.last_offset,
                newest.max_timestamp,
                newest.last_offset,
                first.leader_epoch,
            )
            if pending is not None:
                pending.add_done_callback(self._replicated)
            for batch in run:
                if batch.header.producer_id >= 0:
                    log.appender.learned(batch.header, lambda batch=batch: batch.view)  # type: ignore[misc]
        self.state.end = Offset(log.end)

    def _replicated(self, done: asyncio.Future[None]) -> None:
        """What came from a leader is on disk.  This node may lead by now."""
        if done.cancelled() or done.exception() is not None:
            return
        if self.leader == self.state.node:
            self.wrote(0)
        else:
            self.leader_committed(*self._told)

    def leader_committed(self, committed: Offset, log_start: Offset) -> None:
        """What the leader says of its log: records below `committed` may be shown, those before `log_start` are gone."""
        log, state = self.log, self.state
        self._told = committed, log_start
        state.end = Offset(log.end)
        committed_here = min(committed, state.end)
        if committed_here > state.committed:
            state.committed = committed_here
            log.producers.committed(committed_here)
            self._committed_moved(log.size)
        if log_start > log.start:
            log.advance_start(min(log_start, log.end))

    def truncate_to(self, offset: Offset) -> None:
        """Where this log and the leader's part ways."""
        self.log.truncate_to(offset)
        # An epoch that this node led without a record in it begins at the very end: it goes as well.
        self.log.epochs.truncate_to(offset)
        self.state.truncated(Offset(self.log.end))

    def restart_at(self, offset: Offset, before: RemotePart | None = None) -> None:
        """The leader has nothing as old as this log's end, or has it in remote storage only (`before`)."""
        self.log.restart_at(offset, before)
        self.state.truncated(offset)
        self.state.committed = offset

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
        """What a reader of committed transactions may see: below the first transaction that is still open, or whose end
        is not committed."""
        committed = self.state.committed
        unstable = self.log.producers.unstable_below(committed)
        return committed if unstable is None or unstable >= committed else Offset(unstable)

    def readable_end(self, read_committed: bool) -> Offset:
        return self.last_stable if read_committed else self.state.committed
