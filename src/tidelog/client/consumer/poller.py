"""Hands out fetched records: `poll`, `poll_arrow`, iteration; and attends to rebalances and commits in between.

`Consumer` owns the only instance.  A blocking consumer takes what is buffered in its own thread (`take_here`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog._speed.client.consumed import Record
from tidelog.client.consumer.fetch.arrow_loading import is_loaded, load
from tidelog.client.consumer.metrics import ConsumerCounters, ConsumerMetrics
from tidelog.client.consumer.record_iterator import RecordIterator
from tidelog.client.consumer.runtime import ConsumerRuntime
from tidelog.client.telemetry.recent_times import RecentTimes
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow


class Poller:
    def __init__(self, runtime: ConsumerRuntime) -> None:
        self.deserializers = runtime.config.deserializers
        self._runtime = runtime
        self._options = runtime.config.fetch

    def begin(self) -> None:
        """When the consumer has started."""
        self._loop_time = asyncio.get_running_loop().time
        self._counters = ConsumerCounters(self._loop_time())

    def iterate(self) -> RecordIterator:
        runtime = self._runtime
        runtime.fetcher()
        if runtime.iterator is None:
            runtime.iterator = RecordIterator(runtime, self)
        return runtime.iterator

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        runtime = self._runtime
        fetcher = runtime.fetcher()
        records_max = self._options.records_of_poll(max_records)
        runtime.polls += 1
        self._counters.polled(self._loop_time())
        fetcher.settle()
        if runtime.attention:
            await self.attend()
        if runtime.iterator is not None and (rest := runtime.iterator.take(records_max)):
            return rest
        records = fetcher.take(records_max)
        if not records:
            records = await self._wait(timeout_ms, lambda: runtime.fetcher().take(records_max))
        if self.deserializers.active:
            records = await self._deserialized(records)
        self._counters.handed_out(self._loop_time(), len(records))
        return records

    def take_here(self, max_records: int | None) -> list[Record]:
        """In the thread of a blocking consumer: the buffered records, when there is nothing else to do first.  Most
        polls end here and do not reach the loop's thread."""
        runtime = self._runtime
        if not runtime.started or runtime.attention or self.deserializers.active:
            return []
        iterator = runtime.iterator
        if iterator is not None and iterator.at < len(iterator.records):
            return []
        records = runtime.fetcher().take_here(self._options.records_of_poll(max_records))
        if records:
            runtime.polls += 1
            now_s = self._loop_time()
            self._counters.polled(now_s)
            self._counters.handed_out(now_s, len(records))
        return records

    async def poll_arrow(self, timeout_ms: int) -> pyarrow.RecordBatch:
        if self.deserializers.active:
            raise ValueError(
                "poll_arrow gives bytes as they are: use a consumer without deserializers for it"
            )
        if not is_loaded():
            await asyncio.to_thread(load)
        from tidelog.client.consumer.fetch.arrow import empty, take_columns

        runtime = self._runtime
        fetcher = runtime.fetcher()
        runtime.polls += 1
        fetcher.settle()
        if runtime.iterator is not None:
            runtime.iterator.put_back()
        take = functools.partial(take_columns, fetcher, check_crc=self._options.check_crcs)
        self._counters.polled(self._loop_time())
        batches = await self._wait(timeout_ms, take)
        batch = batches[0] if batches else empty()
        self._counters.handed_out(self._loop_time(), batch.num_rows)
        return batch

    async def _deserialized(self, records: list[Record]) -> list[Record]:
        count, problem = await self.deserializers.convert(records)
        if problem is None:
            return records
        # The good records go out first; the next call meets the bad record again.
        self._runtime.fetcher().put_back(records[count:])
        if not count:
            raise problem
        return records[:count]

    async def _wait(self, timeout_ms: int, take: Callable[[], list[Any]]) -> list[Any]:
        runtime = self._runtime
        fetcher, rebalancer, clock = runtime.fetcher(), runtime.rebalancer, runtime.config.environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        if rebalancer is not None:
            rebalancer.poll_began()
        try:
            if timeout_ms <= 0:
                # Let the answers that have arrived be read: a caller that only ever polls with 0 must still get ahead.
                await asyncio.sleep(0)
            while True:
                if runtime.attention:
                    await self.attend()
                records = take()
                left_ms = deadline_ms - clock.monotonic_ms()
                if records or left_ms <= 0:
                    return records
                await fetcher.arrival(left_ms)
        finally:
            if rebalancer is not None:
                rebalancer.poll_ended()

    # Between two polls

    async def keep_alive(self) -> None:
        """Counts as a poll, for a caller that has enough records."""
        self._runtime.polls += 1
        if self._runtime.attention:
            await self.attend()

    async def attend(self) -> None:
        """Revokes and adds partitions as the group says, and commits when a commit is due."""
        runtime = self._runtime
        runtime.attention = False
        if runtime.commits is not None:
            runtime.commits.auto()
        if runtime.rebalancer is not None:
            await runtime.rebalancer.attend()
            if runtime.rebalancer.problem is not None:
                runtime.attention = True
                raise runtime.rebalancer.problem

    def metrics(self, lag: dict[TopicPartition, int]) -> ConsumerMetrics:
        runtime = self._runtime
        fetcher, rebalancer, commits = runtime.fetcher(), runtime.rebalancer, runtime.commits
        now_s = self._loop_time()
        rate, busy, busy_ms = self._counters.rates(now_s)
        latencies = rebalancer.latencies if rebalancer is not None else RecentTimes()
        made, failed = (commits.committed, commits.failed) if commits is not None else (0, 0)
        rebalances = rebalancer.rebalances if rebalancer is not None else 0
        return ConsumerMetrics(
            records_consumed_total=self._counters.records,
            bytes_fetched_total=fetcher.bytes,
            fetches_total=fetcher.fetches,
            polls_total=self._counters.polls,
            rebalances_total=rebalances,
            commits_total=made,
            commits_failed_total=failed,
            record_consume_rate=rate,
            fetch_latency_avg_ms=fetcher.latencies.average_ms(now_s),
            fetch_latency_max_ms=fetcher.latencies.max_ms(now_s),
            fetches_throttled_total=fetcher.throttled,
            throttle_time_ms_total=fetcher.throttle_ms,
            rebalance_latency_avg_ms=latencies.sum_ms / latencies.count if latencies.count else 0.0,
            rebalance_latency_max_ms=latencies.max_ms(now_s),
            rebalance_latency_ms_total=latencies.sum_ms,
            processing_time_ratio=busy,
            processing_time_avg_ms=busy_ms,
            commit_success_ratio=made / (made + failed) if made + failed else 1.0,
            commit_latency_avg_ms=commits.latencies.average_ms(now_s) if commits is not None else 0.0,
            commit_latency_max_ms=commits.latencies.max_ms(now_s) if commits is not None else 0.0,
            partitions_assigned=len(fetcher.assigned),
            records_lag_max=max(lag.values(), default=0),
            lag=lag,
        )
