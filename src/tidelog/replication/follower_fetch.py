"""The follower's side of Fetch: the session, the offsets to fetch from, and where to truncate after a divergence.  Pure.

A follower fetches with the epoch of its last record.  Where its log and the leader's diverge, the leader answers with that
offset instead of records, and the follower truncates its log there, by epochs alone.  A record that the follower has and
the leader of a newer epoch lacks was never acknowledged with acks=all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.record.reader import Batch, read_batches
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage.leader_epochs import Epochs
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState

NO_SESSION = 0
FIRST = 0
EPOCH_LAST = (1 << 31) - 1
# A follower that asks for no more bytes than this could not read what the leader sent: the leader checks its own bytes.
CHECK_IT = 0

Key = tuple[UUID, int]  # topic id, partition


class Wanted(NamedTuple):
    """The part of a fetch for one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int
    bytes_max: int = NO_LIMIT
    """What a throttle leaves; never more than the broker's own limit."""


def cut_at(epochs: Epochs, end: int, epoch: int, leader_end: int) -> int:
    """Where a log that ends at `end` must be cut when its leader says that `epoch` ended at `leader_end` there."""
    epoch_held, own_end = epochs.end_of(epoch, end)
    if epoch_held == epoch:
        return min(own_end, leader_end, end)
    # That epoch never was in this log: what came after the last epoch before it is foreign, all of it.
    return min(own_end, end) if epoch_held >= 0 else min(leader_end, end)


def runs(data: memoryview, start: int, bytes_max: int) -> Iterator[list[Batch]]:
    """Batches from offset `start` on, whole and with the right checksums, in runs that can be appended at once: of one
    epoch, and not longer than `bytes_max` if there is more than one."""
    run: list[Batch] = []
    size = 0
    for batch in read_batches(data):
        header = batch.header
        if header.last_offset < start:
            continue
        if run and (header.leader_epoch != run[0].header.leader_epoch or size + header.size > bytes_max):
            yield run
            run, size = [], 0
        run.append(batch)
        size += header.size
    if run:
        yield run


class FollowerFetchSession:
    """Names the partitions once, then only what changed, as fetch sessions allow."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._id = NO_SESSION
        self._epoch = FIRST
        self._told: dict[
            Key, Wanted | None
        ] = {}  # what the leader keeps; None: to be told again, or taken back

    def request(
        self,
        wanted: Mapping[Key, Wanted],
        broker_epoch: int,
        wait_ms: int,
        bytes_min: int,
        bytes_max: int,
        partition_bytes: int,
    ) -> FetchRequest:
        changed = [
            (key, fetch_state) for key, fetch_state in wanted.items() if self._told.get(key) != fetch_state
        ]
        gone = [key for key in self._told if key not in wanted]
        self._told = dict(wanted)
        return FetchRequest(
            replica_state=ReplicaState(self._node, broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=bytes_min,
            max_bytes=bytes_max,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(changed, partition_bytes),
            forgotten_topics_data=_forgotten(gone),
        )

    def answered(self, session_id: int) -> None:
        if session_id == NO_SESSION:
            self.lost()
        elif session_id != self._id:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == EPOCH_LAST else self._epoch + 1

    def lost(self) -> None:
        """The leader does not know it (any more): begin anew."""
        self._id, self._epoch = NO_SESSION, FIRST
        self._told = {}

    def forget(self, key: Key) -> None:
        """Tell the leader of this partition again, whatever it was told before; if it is not wanted any more, that."""
        self._told[key] = None


def _topics(wanted: Iterable[tuple[Key, Wanted]], partition_bytes: int) -> list[FetchTopic]:
    topics: dict[UUID, FetchTopic] = {}
    for (topic_id, index), fetch_state in wanted:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=fetch_state.leader_epoch,
                fetch_offset=fetch_state.offset,
                last_fetched_epoch=fetch_state.last_epoch,
                log_start_offset=fetch_state.log_start,
                partition_max_bytes=min(partition_bytes, fetch_state.bytes_max),
            )
        )
    return list(topics.values())


def _forgotten(gone: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[UUID, ForgottenTopic] = {}
    for topic_id, index in gone:
        topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
        topic.partitions.append(index)
    return list(topics.values())
