"""A worker: a member of a group of workers that runs the connectors of its slots.

Slots are the partitions of the offsets topic, and a consumer group shares them: a worker that dies loses its slots after the
session time-out, the others keep theirs and go on.  Several connectors share one process; each task has a thread."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tidelog import errors
from tidelog.aio import Consumer, RebalanceListener
from tidelog.connect.connector import Source
from tidelog.connect.plugins import Plugins, check_all, settings_of
from tidelog.connect.secrets import resolve
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.state.connectors import (
    ConnectorEntry,
    ConnectorsState,
    PlannedTask,
    TaskId,
    tasks_record,
)
from tidelog.connect.state.status import FAILED, RUNNING, TaskStatus, connector_key, slots_record, task_key
from tidelog.connect.state.store import GroupStore, Records
from tidelog.connect.task_log import TaskLogs
from tidelog.connect.tasks.retrying import keep_running, trace_of
from tidelog.connect.tasks.sink_task import SinkTask
from tidelog.connect.tasks.source_task import SourceTask
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.connect")

LOOK_AGAIN_S = 5.0
POLL_MS = 500


@dataclass(slots=True)
class RunningTask:
    version: tuple[int, ...]
    job: asyncio.Task[None]


class ConnectWorker:
    def __init__(self, store: GroupStore, plugins: Plugins, worker_id: str, logs: TaskLogs) -> None:
        """`worker_id`: host and port of the worker's REST API."""
        self.store = store
        self.plugins = plugins
        self.id = worker_id
        self.logs = logs
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slots: set[int] = set()
        self._running: dict[TaskId, RunningTask] = {}
        self._planning: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []
        self._changing = asyncio.Lock()

    # Beginning and end

    async def start(self) -> None:
        self.store.configs_view.listeners.append(self._news)
        for work in (self._share(), self._follow()):
            job = asyncio.create_task(work)
            job.add_done_callback(self._job_ended)
            self._jobs.append(job)

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        if not job.cancelled() and not self.ended.done():
            problem = job.exception()
            if problem is not None:
                self.ended.set_exception(problem)

    async def stop(self) -> None:
        """Tasks write what they have in hand; the other workers take over."""
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await self._stop_tasks(list(self._running))
        for planning in self._planning.values():
            planning.cancel()
        with contextlib.suppress(errors.TidelogError):
            await self.store.say_slots(self.id, None)

    # Slots

    async def _share(self) -> None:
        """Takes part in the group."""
        while True:
            consumer = Consumer(
                **self.store.options.client,
                client_id=self.id,
                group_id=self.store.options.group,
                partition_assignment_strategy="cooperative-sticky",
                enable_auto_commit=False,
                auto_offset_reset="latest",
                session_timeout_ms=self.store.options.session_timeout_ms,
                heartbeat_interval_ms=self.store.options.heartbeat_interval_ms,
            )
            try:
                async with consumer:
                    consumer.subscribe([self.store.options.offsets], listener=_Slots(self, consumer))
                    while True:
                        await consumer.poll(POLL_MS)
            except errors.TidelogError as problem:
                if not problem.retriable:
                    raise
                log.warning("the group of workers cannot be reached, trying again: %s", problem)
                await self.lost(set(self._slots))
                await asyncio.sleep(1)

    async def assigned(self, slots: set[int]) -> None:
        self._slots |= slots
        log.info("slots: %s", sorted(self._slots))
        await self.store.say_slots(self.id, slots_record(frozenset(self._slots)))
        self._news.set()

    async def lost(self, slots: set[int]) -> None:
        """Returns when no task of these slots runs."""
        self._slots -= slots
        async with self._changing:
            keep = self.store.connectors.tasks_in(self._slots)
            await self._stop_tasks([task for task in self._running if task not in keep])
        with contextlib.suppress(errors.TidelogError):
            await self.store.say_slots(self.id, slots_record(frozenset(self._slots)))

    # Tasks

    async def _follow(self) -> None:
        """Brings what runs in line with what should run, whenever something has changed."""
        while True:
            self._news.clear()
            async with self._changing:
                await self._reconcile()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._news.wait()

    async def _reconcile(self) -> None:
        for entry in self.store.connectors.to_plan(self._slots):
            if entry.name not in self._planning:
                planning = asyncio.create_task(self._plan(entry, entry.version))
                self._planning[entry.name] = planning
                planning.add_done_callback(functools.partial(self._planned_or_not, entry.name))
        wanted = self.store.connectors.tasks_in(self._slots)
        await self._stop_tasks(
            [task for task, running in self._running.items() if wanted.get(task) != running.version]
        )
        for task, version in wanted.items():
            if task not in self._running:
                self._running[task] = RunningTask(version, asyncio.create_task(self._run(task)))

    def _planned_or_not(self, name: str, _: asyncio.Task[None]) -> None:
        del self._planning[name]
        self._news.set()

    async def _stop_tasks(self, tasks: list[TaskId]) -> None:
        jobs = [self._running.pop(task).job for task in tasks]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _run(self, task: TaskId) -> None:
        task_log = self.logs.of(task)

        async def say(state: str, trace: str) -> None:
            status = TaskStatus(state, self.id, trace)
            await self.store.say_status(task_key(task.connector, task.number), status)

        try:
            entry = self.store.connectors.connectors[task.connector]
            plugin = self.plugins.of(entry.settings)
            config = ConnectorConfig(settings_of(plugin), resolve(entry.settings))
            runnable: SourceTask | SinkTask
            if issubclass(plugin, Source):
                part = resolve(entry.tasks[task.number].settings)
                runnable = SourceTask(task, plugin, config, part, self.store, task_log)
            else:
                runnable = SinkTask(task, plugin, config, self.store, task_log)
            task_log.info("started on %s", self.id)
            await keep_running(runnable, config, say)
        except asyncio.CancelledError:
            task_log.info("stopped on %s", self.id)
            raise
        except Exception as problem:
            task_log.error("the task failed: %s", problem)
            await say(FAILED, trace_of(problem))

    # Plans

    async def _plan(self, entry: ConnectorEntry, version: int) -> None:
        """Divides the work of a connector among tasks, and writes down the tasks."""
        key = connector_key(entry.name)
        try:
            plugin = self.plugins.of(entry.settings)
            check_all(plugin, entry.settings)
            config = ConnectorConfig(settings_of(plugin), resolve(entry.settings))
            tasks_max = config.number("tasks.max")
            if issubclass(plugin, Source):
                parts = await asyncio.to_thread(plugin.plan, config, tasks_max)
            else:
                parts = [{}] * tasks_max
            await self.store.change(lambda state: self._planned(state, entry.name, version, parts))
            await self.store.say_status(key, TaskStatus(RUNNING, self.id))
        except Exception as problem:
            self.logs.of(TaskId(entry.name, 0)).error("the connector could not be started: %s", problem)
            with contextlib.suppress(errors.TidelogError):
                await self.store.say_status(key, TaskStatus(FAILED, self.id, trace_of(problem)))
            await asyncio.sleep(LOOK_AGAIN_S)

    def _planned(
        self, state: ConnectorsState, name: str, version: int, parts: list[dict[str, str]]
    ) -> Records:
        entry = state.connectors.get(name)
        if entry is None or entry.version != version or entry.planned == version:
            return {}
        slots = [task.slot for task in entry.tasks[: len(parts)]] or [entry.slot]
        more = len(parts) - len(slots)
        if more > 0:
            slots += state.free_slots(more, self.store.options.slots, self.store.status.owners())
        tasks = [PlannedTask(slot, part) for slot, part in zip(slots, parts, strict=False)]
        planned = ConnectorEntry(
            name, entry.settings, entry.slot, version, entry.target, tasks, version, entry.restarts
        )
        return {f"tasks-{name}": tasks_record(planned)}

    def metrics(self) -> dict[str, Any]:
        return {"tasks": len(self._running), "slots": len(self._slots)}


class _Slots(RebalanceListener):
    def __init__(self, worker: ConnectWorker, consumer: Consumer) -> None:
        self._worker, self._consumer = worker, consumer

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.pause(list(partitions))  # the group is all that is wanted of this topic
        await self._worker.assigned({partition.partition for partition in partitions})

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._worker.lost({partition.partition for partition in partitions})
