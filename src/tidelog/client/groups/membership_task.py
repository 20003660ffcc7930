"""The task of a group membership: sends the joins, syncs and heartbeats that the membership says are due, so that
heartbeats do not wait for the application.

The consumer applies changes of the assignment, between two polls (`Rebalancer`); the membership waits for that.  When
the application does not poll for `max_poll_interval_ms`, the member leaves.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection

from tidelog import errors
from tidelog.client.cluster.backoff import Backoff
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup
from tidelog.client.groups.membership import CoordinatorRequest, Membership, MetadataLookup
from tidelog.wire.messages.join_group import JoinGroupRequest

log = logging.getLogger("tidelog.client")

# A join is answered when all others have joined or their time is up; the answer needs some time, too.
HELD_SPARE_MS = 5_000
LEAVE_MS_MAX = 5_000


class MembershipTask:
    def __init__(
        self,
        cluster: Cluster,
        coordinator: CoordinatorLookup,
        membership: Membership,
        *,
        poll_interval_ms_max: int,
        notify: Callable[[], None],
        progress: Callable[[], object],
    ) -> None:
        """`notify` is called when there is a change or a problem for the consumer; the value of `progress` changes
        whenever the application has made progress."""
        self.membership = membership
        self._cluster = cluster
        self._coordinator = coordinator
        self._poll_interval_ms_max = poll_interval_ms_max
        self._notify = notify
        self._progress = progress
        self._seen_progress: object = None
        self._alive_ms = 0.0
        self._polling = 0
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._regex_here = True
        self._patterns_ms = -float("inf")
        self._rebalance_began_ms: int | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Called by the consumer

    def subscribe(
        self, topics: Collection[str], pattern: re.Pattern[str] | None, regex_here: bool = True
    ) -> None:
        """`regex_here`: the pattern is matched by us, not by the coordinator."""
        self._topics, self._pattern, self._regex_here = tuple(topics), pattern, regex_here
        self._patterns_ms = -float("inf")
        if pattern is None:
            self.membership.subscribed(topics)
        elif not regex_here:
            self.membership.subscribed((), pattern.pattern)
        self._alive_ms = self._now_ms()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="group member")
        self.wake()

    def wake(self) -> None:
        self._woken.set()

    def poll_began(self) -> None:
        self._polling += 1

    def poll_ended(self) -> None:
        self._polling -= 1
        self._alive_ms = self._now_ms()

    def rebalance_ended(self) -> int:
        """Milliseconds from the first join, or from the news of another assignment, until now, when it is applied."""
        now_ms = self._now_ms()
        began_ms, self._rebalance_began_ms = self._rebalance_began_ms, None
        return 0 if began_ms is None else now_ms - began_ms

    async def close(self, *, leave: bool = True) -> None:
        """Ends the membership; within a few seconds, whatever the coordinator does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        request = self.membership.leave()
        if request is None or not leave:
            return
        timeout_ms = min(LEAVE_MS_MAX, self._cluster.options.request_timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._coordinator.connection()
                await connection.ask(request.request, request.response)
        except (TimeoutError, errors.TidelogError) as problem:
            log.info("left the group without saying so: %s", problem)

    # The task

    def _now_ms(self) -> int:
        return self._cluster.environment.clock.monotonic_ms()

    async def _run(self) -> None:
        options = self._cluster.options
        backoff = Backoff(
            options.retry_backoff_ms, options.retry_backoff_max_ms, self._cluster.environment.random
        )
        while True:
            try:
                await self._match()
                step = self._next()
                if step is None:
                    await self._wait()
                    continue
                await self._perform(step)
                backoff.succeeded()
            except errors.TidelogError as problem:
                self._coordinator.failed(problem)
                self.membership.failed(problem, self._now_ms(), backoff.failed())
            except Exception as bug:
                # Nobody awaits this task: without this, a defect would leave `poll` waiting for ever.
                log.exception("the group membership failed")
                self.membership.problem = errors.UnknownServerError(f"the group membership failed: {bug!r}")
            if self.membership.change is not None:
                self._rebalance_began()
            if self.membership.change is not None or self.membership.problem is not None:
                self._notify()
            if self.membership.problem is not None:
                return

    def _rebalance_began(self) -> None:
        if self._rebalance_began_ms is None:
            self._rebalance_began_ms = self._now_ms()

    def _next(self) -> CoordinatorRequest | MetadataLookup | None:
        now_ms = self._now_ms()
        progress = self._progress()
        if self._polling or progress != self._seen_progress:
            self._alive_ms, self._seen_progress = now_ms, progress
        if self.membership.in_group and now_ms - self._alive_ms >= self._poll_interval_ms_max:
            log.warning(
                "no poll for %s ms: leaving the group; raise max_poll_interval_ms, or process less at a time",
                self._poll_interval_ms_max,
            )
            self.membership.expired()
            self._alive_ms = now_ms
            self._notify()
        topology = self._cluster.topology
        self.membership.seen({name: len(topic.partitions) for name, topic in topology.topics.items()})
        return self.membership.due(now_ms)

    async def _wait(self) -> None:
        now_ms = self._now_ms()
        times = [now_ms + self._cluster.options.metadata_max_age_ms]
        next_ms = self.membership.next_ms()
        if next_ms is not None:
            times.append(int(next_ms))
        if self.membership.in_group:
            times.append(int(self._alive_ms) + self._poll_interval_ms_max)
        try:
            async with asyncio.timeout(max(1, min(times) - now_ms) / 1000):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _perform(self, step: CoordinatorRequest | MetadataLookup) -> None:
        if isinstance(step, MetadataLookup):
            if step.topics:
                await self._cluster.refresh(step.topics)
            if step.ids:
                await self._cluster.refresh_ids(step.ids)
            topics = self._cluster.topology.topics
            self.membership.looked_up(
                {name: len(topic.partitions) for name, topic in topics.items()},
                {topic.id: name for name, topic in topics.items()},
                self._now_ms(),
            )
            return
        if isinstance(step.request, JoinGroupRequest):
            self._rebalance_began()
        connection = await self._coordinator.connection()
        timeout_ms = self._cluster.options.request_timeout_ms
        if step.wait_ms:
            timeout_ms = max(timeout_ms, step.wait_ms + HELD_SPARE_MS)
        answer = await connection.ask(step.request, step.response, timeout_ms=timeout_ms)
        self.membership.answered(answer, self._now_ms())

    async def _match(self) -> None:
        """With a pattern: which topics match it is looked up again every `metadata_max_age_ms`."""
        if self._pattern is None or not self._regex_here:
            return
        now_ms = self._now_ms()
        if now_ms - self._patterns_ms < self._cluster.options.metadata_max_age_ms:
            return
        topology = await self._cluster.refresh(None)
        self._patterns_ms = now_ms
        pattern = self._pattern
        if pattern is not None:
            matching = [
                name
                for name, topic in topology.topics.items()
                if not topic.internal and pattern.fullmatch(name)
            ]
            for name in matching:
                self._cluster.track(name)
            self.membership.subscribed(matching)
