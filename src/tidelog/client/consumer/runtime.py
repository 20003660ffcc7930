"""What the parts of one consumer share: the cluster, the fetcher, commits, the group, and the records in hand.

`Consumer` owns the only instance and gives it to its parts (`Subscription`, `AssignedPartitions`, `GroupCommits`,
`Poller`, `Processor`).  The fetcher exists from `start` on; after `close` every part raises `ClientClosed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.consumer.commits import Commits, OffsetCommitter
from tidelog.client.consumer.config import ConsumerConfig
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.client.consumer.offset_store import Call, StoredOffsets, call_here
from tidelog.client.errors import ClientClosed
from tidelog.client.groups.metadata import GroupMetadata
from tidelog.client.groups.offsets import CoordinatorOffsets
from tidelog.client.groups.rebalancer import Rebalancer
from tidelog.client.telemetry.reporter import TelemetryReporter

if TYPE_CHECKING:
    from tidelog.client.consumer.processing.processing import Processing
    from tidelog.client.consumer.record_iterator import RecordIterator


class ConsumerRuntime:
    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.cluster = Cluster(
            parse_addresses(config.bootstrap_servers), config.connection, config.environment
        )
        self.timeout_ms = config.connection.request_timeout_ms
        self.call: Call = (
            call_here  # how listeners and offset stores are called; the blocking face has its own way
        )
        self.offsets: CoordinatorOffsets | StoredOffsets | None = None
        self.commits: Commits | None = None
        self.rebalancer: Rebalancer | None = None
        self.telemetry: TelemetryReporter | None = None
        self.iterator: RecordIterator | None = None
        self.processing: Processing | None = None
        self.attention = False  # a rebalance, a commit or a seek waits for the next poll
        self.polls = 0
        self.closed = False
        self._fetcher: Fetcher | None = None

    @property
    def started(self) -> bool:
        return self._fetcher is not None

    def fetcher(self) -> Fetcher:
        """The fetcher of a consumer that runs; raises `ClientClosed` before `start` and after `close`."""
        if self.closed:
            raise ClientClosed("this consumer is closed: make a new one")
        if self._fetcher is None:
            raise ClientClosed("this consumer is not started: use `async with`, or await start()")
        return self._fetcher

    async def start(self) -> None:
        try:
            await self.cluster.open()
        except BaseException:
            await self.cluster.close()
            raise
        self.offsets = self._new_offsets()
        self._fetcher = Fetcher(self.cluster, self.config.fetch, self.offsets)
        if self.offsets is not None:
            self.commits = self._new_commits(self.offsets, self._fetcher)

    def _new_offsets(self) -> CoordinatorOffsets | StoredOffsets | None:
        group_id = self.config.group.group_id
        if self.config.offset_store is not None:
            return StoredOffsets(self.config.offset_store, self.call_application)
        if group_id is None:
            return None
        return CoordinatorOffsets(
            self.cluster,
            CoordinatorLookup(self.cluster, CoordinatorType.GROUP, group_id),
            group_id,
            self._committer,
            require_stable=self.config.fetch.read_committed,
        )

    def _new_commits(self, committer: OffsetCommitter, fetcher: Fetcher) -> Commits:
        # An application with its own store commits its results and offsets together, and says when.
        auto = self.config.group.enable_auto_commit and self.config.offset_store is None
        interval_ms = self.config.group.auto_commit_interval_ms if auto else None
        return Commits(committer, fetcher, auto_interval_ms=interval_ms, due=self.notify)

    def group_metadata(self) -> GroupMetadata:
        """This consumer's identity in its group."""
        group_id = self.config.group.group_id
        if self.rebalancer is not None and group_id is not None:
            return self.rebalancer.identity
        return GroupMetadata(group_id or "")

    def telemetry_labels(self) -> dict[str, str]:
        """What is pushed about this consumer besides its metrics."""
        identity = self.group_metadata()
        labels = {
            "client_rack": self.config.fetch.client_rack,
            "group_id": identity.group_id,
            "group_member_id": identity.member_id,
            "group_instance_id": identity.group_instance_id or "",
        }
        return {name: value for name, value in labels.items() if value}

    def _committer(self) -> GroupMetadata | None:
        """The identity to commit with.  None: the group assigned these partitions, and this consumer is not a member
        now."""
        if self.rebalancer is not None and not self.rebalancer.in_group:
            return None
        return self.group_metadata()

    async def call_application(self, method: Callable[[Any], Any], argument: Any) -> Any:
        """Calls a method of a listener or an offset store, on the thread that it belongs to."""
        return await self.call(method, argument)

    def notify(self) -> None:
        """The next poll, or a loop between two records, has a rebalance or a commit to attend to."""
        self.attention = True
        if self._fetcher is not None:
            self._fetcher.notify()

    def moved(self) -> None:
        """The application has set a position."""
        self.fetcher().wake()
        if self.iterator is not None:
            self.attention = True  # The records in hand may be from before the seek.

    async def close(self, in_hand_done: bool) -> None:
        """`in_hand_done`: the application is done with the records that it was given last."""
        if self.closed:
            return
        ends_well = in_hand_done
        try:
            await self.stop_processing()
            if self.commits is not None:
                if self.iterator is not None:
                    self.iterator.settle(in_hand_done)
                    in_hand_done = False
                await self.commits.auto_now(None, all_handed_out=in_hand_done)
            if self.telemetry is not None:
                await self.telemetry.close(last_push=ends_well)
        finally:
            self.closed = True
            try:
                if self.rebalancer is not None:
                    await self.rebalancer.close()
            finally:
                await self._close_connections()

    async def stop_processing(self) -> None:
        if self.processing is not None:
            await self.processing.stop(ClientClosed("this consumer was closed while it was processing"))

    async def _close_connections(self) -> None:
        if self.telemetry is not None:
            await self.telemetry.close(last_push=False)
        if self.commits is not None:
            await self.commits.close()
        if self._fetcher is not None:
            await self._fetcher.close()
        await self.cluster.close()
