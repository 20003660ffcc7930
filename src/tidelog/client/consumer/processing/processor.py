"""`Consumer.process`: begins one run of `Processing` at a time, and puts the consumer back as it was when the run ends.
`Consumer` owns the only instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog._speed.client.consumed import Record
from tidelog.client.consumer.assigned_partitions import AssignedPartitions
from tidelog.client.consumer.deserializers import Deserializers
from tidelog.client.consumer.group_commits import GroupCommits
from tidelog.client.consumer.poller import Poller
from tidelog.client.consumer.processing.dead_letters import LETTER_BYTES_MAX
from tidelog.client.consumer.processing.processing import Processing, ProcessListener, ProcessOptions
from tidelog.client.consumer.runtime import ConsumerRuntime
from tidelog.client.consumer.subscription import Subscription
from tidelog.client.producer.producer import Producer
from tidelog.client.topic_names import check_dead_letters


class Processor:
    def __init__(
        self,
        runtime: ConsumerRuntime,
        subscription: Subscription,
        partitions: AssignedPartitions,
        commits: GroupCommits,
        poller: Poller,
    ) -> None:
        self._runtime = runtime
        self._subscription = subscription
        self._partitions = partitions
        self._commits = commits
        self._poller = poller

    async def process(self, work: Callable[[Record], Any], options: ProcessOptions) -> None:
        runtime, poller, subscription = self._runtime, self._poller, self._subscription
        runtime.fetcher()
        if runtime.processing is not None:
            raise ValueError("this consumer is processing already")
        if options.dead_letter_topic is not None:
            assigned = {partition.topic for partition in self._partitions.all()}
            check_dead_letters(options.dead_letter_topic, subscription.topics, subscription.pattern, assigned)
        deserializers = poller.deserializers
        processing = Processing(
            runtime, poller, self._partitions, self._commits, work, options, deserializers, self._new_producer
        )
        # Polls give bytes: `Processing` deserializes record by record, so that one may fail alone.
        poller.deserializers = Deserializers(None, None)
        if runtime.iterator is not None:
            runtime.iterator.put_back()
        runtime.processing = processing
        if runtime.commits is not None:
            runtime.commits.paused = True
        if runtime.rebalancer is not None:
            runtime.rebalancer.listener = ProcessListener(
                processing, subscription.listener, runtime.call_application
            )
        try:
            await processing.run()
        finally:
            runtime.processing = None
            poller.deserializers = deserializers
            if runtime.commits is not None:
                runtime.commits.paused = False
            if runtime.rebalancer is not None:
                runtime.rebalancer.listener = subscription.listener

    def _new_producer(self) -> Producer:
        """The producer of dead letters."""
        config = self._runtime.config
        options = config.connection
        return Producer(
            bootstrap_servers=config.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
            retry_backoff_ms=options.retry_backoff_ms,
            retry_backoff_max_ms=options.retry_backoff_max_ms,
            security=options.security,
            environment=config.environment,
            max_request_size=LETTER_BYTES_MAX,
            buffer_memory=LETTER_BYTES_MAX,
        )
