"""The schema registry of a cluster: one state machine, on the broker that leads the only partition of `_schemas`.

A change is decided on the present state, appended, and answered when it is committed.  Changes run one after the other,
so that an id is used once.  The state is loaded, and the topic created, at the first request.  Other writers (another
registry, a mirror) may append to the topic, too: their records are applied before the next decision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog import errors
from tidelog.clock import Clock
from tidelog.coordination.internal_topic import InternalTopic, TopicShape
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.net.http_request import NoAnswer, NotSent, send
from tidelog.record.reader import read_batches
from tidelog.registry.validation import SchemaIdCheck, SchemaValidation, subject_wanted
from tidelog.replication.partitions import Partitions
from tidelog.storage.fetched_log import fetch_bytes
from tidelog.types import NodeId

if TYPE_CHECKING:
    from tidelog.coordination.shard import Shard
    from tidelog.registry.decisions import RegistryDecision
    from tidelog.registry.formats import Formats
    from tidelog.registry.state import RegistryState

    RegistryShard = Shard[RegistryState]

TOPIC = "_schemas"
COMMIT_MS_MAX = 10_000
LOAD_S_MAX = 5.0
LOOK_S = 0.02
READ_BYTES = 1 << 20
TRIES = 5

FORWARDED = "x-forwarded-by-tidelog"
"""The header with the broker that forwarded a request; such a request is not forwarded again."""

T = TypeVar("T")
Users = tuple[frozenset[str], str, str]
"""The subjects that use a schema, its type and its text."""


class NotRegistryLeader(Exception):
    """Another broker leads `_schemas`; `leader` is None if no broker does."""

    def __init__(self, leader: NodeId | None) -> None:
        super().__init__(leader)
        self.leader = leader


class SchemaRegistry:
    def __init__(self, node: NodeId, controller: Controller, partitions: Partitions, clock: Clock) -> None:
        self._node = node
        self._controller = controller
        self._partitions = partitions
        self._clock = clock
        self._coordinator: CoordinatorRuntime[RegistryState] | None = None
        self._topic = InternalTopic(TOPIC, controller, self._shape)
        self._formats: Formats | None = None
        self._deciding = asyncio.Lock()
        self._taken_in = 0  # the offset up to which the log's records are in the state
        self.validation = SchemaValidation(clock, self._is_registered)

    # For gateways

    async def read(self, ask: Callable[[RegistryState], T]) -> T:
        """The answer to a read, from committed state.  Without the topic, the state is empty."""
        if self._topic.count(self._controller.image) is None:
            from tidelog.registry.state import RegistryState

            return ask(RegistryState())
        shard = await self._shard()
        answer = ask(shard.machine)
        await self._settled(shard)
        return answer

    async def understand(self, ask: Callable[[RegistryState, Formats], T]) -> T:
        """As `read`, for requests that parse or compare schemas: in a thread, while no change is decided."""
        async with self._deciding:
            if self._topic.count(self._controller.image) is None:
                from tidelog.registry.state import RegistryState

                return await asyncio.to_thread(ask, RegistryState(), self._open_formats())
            shard = await self._shard()
            answer = await asyncio.to_thread(ask, shard.machine, self._open_formats())
        await self._settled(shard)
        return answer

    async def change(self, decide: Callable[[RegistryState, Formats], RegistryDecision]) -> Any:
        """Decides and writes a change; returns the decision's answer when it is committed."""
        await self._make_topic()
        async with self._deciding:
            for _ in range(TRIES):
                shard = await self._shard()
                seen = self._taken_in
                decision = await asyncio.to_thread(decide, shard.machine, self._open_formats())
                if not shard.closed and self._log_next() == seen:
                    break
            else:
                raise errors.CoordinatorNotAvailable(
                    f"other writers append to {TOPIC} all the time: try again"
                )
            appended = shard.append(decision.entries)
            if appended is not None:
                self._taken_in = appended.end
        await shard.committed(appended, COMMIT_MS_MAX)
        return decision.answer

    # For the leaders of partitions

    async def _is_registered(self, wanted: SchemaIdCheck) -> bool:
        """True if the schema is registered for the record's subject; raises NotEnoughReplicas, which producers retry, if
        the registry does not answer."""
        try:
            try:
                users = await self.read(lambda state: _users(state, wanted.id))
            except NotRegistryLeader as elsewhere:
                users = await self._ask_elsewhere(elsewhere.leader, wanted.id)
        except errors.TidelogError as problem:
            raise errors.NotEnoughReplicas(f"the schema registry does not answer now: {problem}") from problem
        if users is None:
            return False
        subjects, type_, text = users
        return subject_wanted(wanted, type_, text) in subjects

    async def _ask_elsewhere(self, leader: NodeId | None, schema_id: int) -> Users | None:
        broker = None if leader is None else self._controller.image.brokers.get(leader)
        if broker is None or broker.http is None:
            raise errors.CoordinatorNotAvailable(f"the leader of {TOPIC}-0 ({leader}) has no HTTP port")
        answers = []
        for path in (f"/schemas/ids/{schema_id}", f"/schemas/ids/{schema_id}/subjects"):
            try:
                answer = await send(broker.http, "GET", path, {FORWARDED: str(self._node)}, b"")
            except (NotSent, NoAnswer) as problem:
                raise errors.CoordinatorNotAvailable(str(problem)) from None
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise errors.CoordinatorNotAvailable(f"broker {leader} answers {answer.status}")
            answers.append(json.loads(answer.body))
        return frozenset(answers[1]), answers[0].get("schemaType", "AVRO"), answers[0]["schema"]

    # Where the state is

    async def _make_topic(self) -> None:
        problem: errors.TidelogError | None = None
        for _ in range(round(LOAD_S_MAX / LOOK_S)):
            if self._topic.count(self._controller.image) is not None:
                return
            try:
                await self._topic.ensure()
            except errors.CoordinatorNotAvailable as refused:
                problem = refused
                await asyncio.sleep(LOOK_S)
        raise problem or errors.CoordinatorNotAvailable(f"{TOPIC} is being created: try again")

    async def _shard(self) -> RegistryShard:
        """The loaded shard, with all records of the log applied; raises NotRegistryLeader if another broker leads."""
        coordinator = self._open()
        for _ in range(round(LOAD_S_MAX / LOOK_S)):
            leader = self._leader()
            if leader != self._node:
                raise NotRegistryLeader(leader)
            try:
                shard = coordinator.shard_at(0)
            except (errors.CoordinatorLoadInProgress, errors.NotCoordinator):
                await asyncio.sleep(LOOK_S)  # the shard is loading, or is about to: this broker is its leader
            else:
                if self._log_next() > self._taken_in:
                    await self._take_in(shard)
                return shard
        raise errors.CoordinatorLoadInProgress(f"{TOPIC} is being loaded: try again")

    def _leader(self) -> NodeId | None:
        partition = self._controller.image.partition(TOPIC, 0)
        return None if partition is None else partition.leader

    def _log_next(self) -> int:
        try:
            return int(self._partitions.led_here(TOPIC, 0).log.next)
        except errors.TidelogError:
            return -1

    async def _take_in(self, shard: RegistryShard) -> None:
        """Applies records of other writers to the state."""
        from tidelog.registry.records import JsonRecordTypes

        kinds, log = JsonRecordTypes(), self._partitions.led_here(TOPIC, 0).log
        while self._taken_in < log.next and not shard.closed:
            if self._taken_in >= log.end:
                await log.flush()
            data = await fetch_bytes(log, self._taken_in, READ_BYTES, log.end)
            if data is None:
                return
            for batch in read_batches(data, check_crc=False):  # `fetch_bytes` has checked them
                if batch.header.last_offset < self._taken_in:
                    continue
                records = [] if batch.header.control else await asyncio.to_thread(batch.records)
                # Another call may have applied the batch meanwhile.
                if batch.header.last_offset < self._taken_in:
                    continue
                for record in records:
                    try:
                        entry = kinds.decode(record.key, record.value)
                    except errors.InvalidRecord:
                        continue  # not a record of a registry
                    if entry is not None:
                        shard.machine.replay(entry, -1)
                self._taken_in = batch.header.last_offset + 1

    async def _settled(self, shard: RegistryShard) -> None:
        await shard.settled(COMMIT_MS_MAX)

    # Life

    def _open(self) -> CoordinatorRuntime[RegistryState]:
        if self._coordinator is None:
            from tidelog.registry.records import JsonRecordTypes
            from tidelog.registry.state import RegistryState

            self._coordinator = CoordinatorRuntime(
                self._topic, self._node, self._partitions, self._clock, JsonRecordTypes(), RegistryState
            )
            self._coordinator.opened.append(self._loaded)
            self._coordinator.start(self._controller.image)
        return self._coordinator

    def _open_formats(self) -> Formats:
        if self._formats is None:
            from tidelog.registry.formats import Formats

            self._formats = Formats()
        return self._formats

    def _loaded(self, shard: RegistryShard) -> None:
        self._taken_in = self._log_next()

    def start(self) -> None:
        self.validation.start(self._controller.image)

    def apply(self, update: Update) -> None:
        if update.topic_configs:
            self.validation.apply(update)
        if self._coordinator is not None:
            self._coordinator.apply(update)

    async def stop(self) -> None:
        await self.validation.stop()
        if self._coordinator is not None:
            await self._coordinator.stop()

    def _shape(self) -> TopicShape:
        config = self._controller.config()
        return TopicShape(
            1,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "unclean.leader.election.enable": "false",
            },
        )


def _users(state: RegistryState, schema_id: int) -> Users | None:
    context = state.contexts.get(".")
    schema = None if context is None else context.schemas.get(schema_id)
    if context is None or schema is None:
        return None
    alive = (
        key.subject
        for key in context.users[schema_id]
        if not state.subjects[key.subject][key.version].deleted
    )
    return frozenset(alive), schema.type, schema.text
