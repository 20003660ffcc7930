"""Which partitions a consumer reads: topics it is subscribed to, alone or as a member of a group, or partitions
assigned by hand.  The two exclude each other.  `Consumer` owns the only instance."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tidelog.client.consumer.runtime import ConsumerRuntime
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.client.groups.rebalancer import Rebalancer, new_membership
from tidelog.client.topic_names import check_topic, names_of
from tidelog.types import TopicPartition


class Subscription:
    def __init__(self, runtime: ConsumerRuntime, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self.pattern: re.Pattern[str] | None = None
        self.listener: RebalanceListener | None = None
        self._runtime = runtime
        if topics:
            _check(topics, None)

    def begin(self) -> None:
        """Called when the consumer has started: joins the group for topics that were subscribed to before."""
        if self.topics or self.pattern is not None:
            self._join()

    def subscribe(
        self,
        topics: str | Iterable[str],
        pattern: str | re.Pattern[str] | None,
        listener: RebalanceListener | None,
    ) -> None:
        runtime = self._runtime
        names = tuple(dict.fromkeys(names_of(topics)))
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        _check(names, compiled)
        if runtime.started and runtime.rebalancer is None and runtime.fetcher().assigned:
            raise ValueError("partitions are assigned by hand: unsubscribe before subscribing to topics")
        self.topics, self.pattern, self.listener = names, compiled, listener
        if runtime.started:
            runtime.fetcher()
            self._join()

    async def unsubscribe(self) -> None:
        runtime = self._runtime
        fetcher = runtime.fetcher()
        if runtime.commits is not None:
            await runtime.commits.auto_now(None, all_handed_out=True)
        owned = tuple(fetcher.assigned)
        if runtime.rebalancer is not None:
            if owned and self.listener is not None:
                await runtime.call_application(self.listener.on_partitions_revoked, owned)
            await runtime.rebalancer.close()
            runtime.rebalancer = None
        fetcher.assign(())
        if runtime.commits is not None:
            runtime.commits.dropped(owned)
        self.topics, self.pattern, self.listener = (), None, None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        runtime = self._runtime
        fetcher = runtime.fetcher()
        if runtime.rebalancer is not None:
            raise ValueError("partitions come from a subscription: unsubscribe before assigning any by hand")
        wanted = dict.fromkeys(TopicPartition(*partition) for partition in partitions)
        for partition in wanted:
            runtime.cluster.track(partition.topic)
        if runtime.commits is not None:
            runtime.commits.dropped([partition for partition in fetcher.assigned if partition not in wanted])
        fetcher.assign(wanted)
        runtime.moved()

    def _join(self) -> None:
        runtime = self._runtime
        if runtime.rebalancer is None:
            group, config = runtime.config.group, runtime.config
            rack = config.fetch.client_rack or None
            runtime.rebalancer = Rebalancer(
                runtime.cluster,
                runtime.fetcher(),
                runtime.commits,
                new_membership(group, config.connection, rack, config.environment.random),
                group,
                notify=runtime.notify,
                progress=lambda: (
                    runtime.polls,
                    runtime.iterator.at if runtime.iterator is not None else 0,
                ),
                call=runtime.call_application,
            )
        runtime.rebalancer.subscribe(self.topics, self.pattern, self.listener)


def _check(topics: Collection[str], pattern: re.Pattern[str] | None) -> None:
    if bool(topics) == (pattern is not None):
        raise ValueError("subscribe to topics or to a pattern: name one of the two")
    for topic in topics:
        check_topic(topic)
