"""A broker's access to the metadata: follows the store, and changes it by compare-and-swap.

The broker's own task iterates over `follow`, applies each update (opens logs, changes leadership) and only then asks for
the next update, which is when `image` advances.  So every partition that `image` shows is open on this broker, and a
change is answered when it has taken effect.  Decisions are made on the newest image, and made again when a swap fails."""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TypeVar
from uuid import UUID

from tidelog import errors
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.config.group import check_group
from tidelog.metadata import cluster_min_isr, reassignments, records
from tidelog.metadata.access.access_controller import AccessController, Swap
from tidelog.metadata.batched_watch import batched_changes
from tidelog.metadata.config_alterations import check_dead_letter_topic
from tidelog.metadata.elections import elections, replica_doubts
from tidelog.metadata.image import changes
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import NO_CONFIGS, Image, PartitionImage, TopicImage
from tidelog.metadata.in_sync_changes import InSyncChange, next_in_sync
from tidelog.metadata.records import Cause, PartitionRecord
from tidelog.metadata.store import (
    ABSENT,
    Compacted,
    Compare,
    Delete,
    DeletePrefix,
    MetadataStore,
    Operation,
    Put,
    Snapshot,
    Unanswered,
)
from tidelog.metadata.tenants import CreationLimits, ceilings_of, check_ceilings, within_ceilings
from tidelog.metadata.topics import plans
from tidelog.metadata.topics.names import plain_names
from tidelog.metadata.topics.plans import NewPartitions, TopicPlan, TopicSpec
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.metadata")

T = TypeVar("T")
PlanOrError = TopicPlan | errors.TidelogError
ChangeConfigs = Callable[[Mapping[str, str]], Mapping[str, str]]

TRIES_MAX = 20
OPERATIONS_A_TOPIC = 3  # its own key, its settings, those of its partitions


class Controller:
    def __init__(
        self, store: MetadataStore, node: NodeId, config: BrokerConfig, random: Random, image: Image
    ) -> None:
        """Use `start`."""
        self.store = store
        self._node = node
        self._random = random
        self._newest = image
        self._applied = image
        self._start_config = config
        self._config = config.with_dynamic(image.broker_overrides(None), image.broker_overrides(node))
        self._advanced = asyncio.Event()  # set when `_newest` changes
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # by revision
        self._tickets = count()
        self.access = AccessController(self._swap, store.operations_max, random)

    @staticmethod
    async def start(store: MetadataStore, node: NodeId, config: BrokerConfig, random: Random) -> Controller:
        """Reads the image from the store."""
        if await store.get(records.CLUSTER) is None:
            cluster_id = urlsafe_b64encode(new_id(random).bytes).rstrip(b"=")
            await store.txn([Compare(records.CLUSTER, ABSENT)], [Put(records.CLUSTER, cluster_id)])
        image = changes.read(await store.range(""))
        while (swap := cluster_min_isr.stored(image, config)) is not None:
            await store.txn(*swap)  # another broker may be faster
            image = changes.read(await store.range(""))
        cluster_min_isr.warn(image, config)
        return Controller(store, node, config, random, image)

    async def read_again(self) -> None:
        """Reads the image again, as at the start; must not be called once the metadata are followed."""
        self._newest = self._applied = image = changes.read(await self.store.range(""))
        overrides = image.broker_overrides(None), image.broker_overrides(self._node)
        self._config = self._start_config.with_dynamic(*overrides)

    # Reading

    @property
    def image(self) -> Image:
        """The metadata as this broker has applied it."""
        return self._applied

    @property
    def newest(self) -> Image:
        """The metadata as this broker has heard of them.  `follow` yields the update with it before `image` has it."""
        return self._newest

    def config(self) -> BrokerConfig:
        """This broker's settings, including dynamic changes."""
        return self._config

    def topic_config(self, name: str) -> TopicConfig:
        config = TopicConfig.of(self._newest.topic_overrides(name), self._config.topic_defaults)
        return within_ceilings(config, ceilings_of(self._newest, name))

    async def follow(self) -> AsyncGenerator[Update, None]:
        """Yields every update in order, without end.  There is one consumer: asking for the next update says that the last
        one is applied."""
        closed = False
        while not closed:
            watch = self.store.watch("", self._newest.revision + 1)
            try:
                async with aclosing(watch), aclosing(batched_changes(watch)) as batches:
                    async for batch in batches:
                        update = self._learn(changes.advance(self._newest, *batch))
                        yield update
                        self._apply(update)
                closed = True
            except Compacted:
                update = self._learn(changes.catch_up(self._newest, await self._read_all()))
                yield update
                self._apply(update)

    async def _read_all(self) -> Snapshot:
        """Waits while the store cannot be reached, as a watch does."""
        while True:
            try:
                return await self.store.range("")
            except Unanswered as problem:
                log.warning("The metadata cannot be read now: %s", problem)

    async def reached(self, revision: int) -> None:
        """Returns once this broker has applied that revision."""
        if self._applied.revision < revision:
            # Thousands of callers may wait, each for its own revision: only those whose revision is reached are woken.
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (revision, next(self._tickets), turn))
            await turn

    def _learn(self, update: Update) -> Update:
        self._newest = update.image
        if update.broker_configs:
            image = update.image
            self._config = self._start_config.with_dynamic(
                image.broker_overrides(None), image.broker_overrides(self._node)
            )
        self._wake()
        return update

    def _apply(self, update: Update) -> None:
        self._applied = update.image
        waiting = self._waiting
        while waiting and waiting[0][0] <= update.image.revision:
            turn = heappop(waiting)[2]
            if not turn.done():
                turn.set_result(None)

    def _wake(self) -> None:
        self._advanced.set()
        self._advanced = asyncio.Event()

    # Topics.  Each call returns one answer per topic, in order, once the changes are applied on this broker.

    async def create_topics(
        self, wanted: Sequence[TopicSpec], validate_only: bool = False
    ) -> list[PlanOrError]:
        answers: list[PlanOrError] = []
        plans.check_total(wanted, self._config)
        # Besides, the first topic of each tenant writes the key of its tenant.
        for batch in _batches(wanted, self.store.operations_max // (OPERATIONS_A_TOPIC + 1)):
            answers += await self._swap(partial(self._create, batch), validate_only)
        return answers

    def _create(self, wanted: Sequence[TopicSpec], image: Image) -> tuple[list[PlanOrError], Swap]:
        taken = plain_names(image.topics)
        limits = CreationLimits(image)
        answers: list[PlanOrError] = []
        swap = Swap([], [])
        new: set[str] = set()
        for topic in wanted:
            topic_id, start = new_id(self._random), self._random.randrange(1 << 16)
            try:
                if topic.name in new:
                    raise errors.TopicAlreadyExists(f"Topic '{topic.name}' is in the request twice.")
                plan = plans.plan_topic(image, topic, self._config, taken, topic_id, start)
                limits.take(plan.name, 1, len(plan.record.replicas))
            except errors.TidelogError as problem:
                answers.append(problem)
                continue
            new.add(plan.name)
            taken.update(plain_names((plan.name,)))
            answers.append(plan)
            swap.compare.append(Compare(records.topic_key(plan.name), ABSENT))
            swap.then.extend(plan.puts())
        limits.write(swap.compare, swap.then)
        return answers, swap

    async def create_partitions(
        self, wanted: Sequence[NewPartitions], validate_only: bool = False
    ) -> list[PlanOrError]:
        answers: list[PlanOrError] = []
        for topic in wanted:
            answers += await self._swap(partial(self._grow, topic), validate_only)
        return answers

    def _grow(self, wanted: NewPartitions, image: Image) -> tuple[list[PlanOrError], Swap]:
        try:
            topic, plan = plans.plan_partitions(image, wanted, self._random.randrange(1 << 16))
            if len(plan.states) + OPERATIONS_A_TOPIC > self.store.operations_max:
                raise errors.PolicyViolation(
                    f"Cannot add {len(plan.states)} partitions to topic {topic.name!r} in one request while some of their "
                    "brokers are not running: add fewer, or start the brokers."
                )
            limits = CreationLimits(image)
            limits.take(topic.name, 0, wanted.total - len(topic.partitions))
        except errors.TidelogError as problem:
            return [problem], Swap([], [])
        swap = Swap([Compare(records.topic_key(topic.name), topic.revision)], [*plan.puts()])
        limits.write(swap.compare, swap.then)
        return [plan], swap

    async def delete_topics(self, wanted: Sequence[str | UUID]) -> list[TopicImage | errors.TidelogError]:
        answers: list[TopicImage | errors.TidelogError] = []
        for batch in _batches(wanted, self.store.operations_max // OPERATIONS_A_TOPIC):
            answers += await self._swap(partial(_delete, batch))
        return answers

    # Settings

    async def alter_topic_configs(
        self, name: str, change: ChangeConfigs, validate_only: bool = False
    ) -> None:
        def attempt(image: Image) -> tuple[None, Swap]:
            topic = image.topics.get(name)
            if topic is None:
                raise errors.UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
            configs = image.topic_configs.get(name, NO_CONFIGS)
            after = change(configs.values)
            parsed = TopicConfig.of(after, self._config.topic_defaults)
            parsed.check()
            before = TopicConfig.of(configs.values, self._config.topic_defaults)
            parsed.check_remote_change(before, self._config.remote_log_storage_system_enable)
            check_ceilings(image, name, configs.values, after, parsed)
            swap = _put_configs(records.topic_config_key(name), configs.revision, configs.values, after)
            # Settings must not outlive a topic that is deleted meanwhile.
            swap.compare.append(Compare(records.topic_key(name), topic.revision))
            return None, swap

        await self._swap(attempt, validate_only)

    async def alter_broker_configs(
        self, node: NodeId | None, change: ChangeConfigs, validate_only: bool = False
    ) -> None:
        """Changes the dynamic settings of one broker; `node` None: of all brokers."""

        def attempt(image: Image) -> tuple[None, Swap]:
            configs = image.broker_configs.get(node, NO_CONFIGS)
            after = change(configs.values)
            if node is None:
                self._start_config.with_dynamic(after, self._config.dynamic_here)
            else:
                self._start_config.with_dynamic(self._config.dynamic_all, after)
            key = records.broker_config_key(node)
            return None, _put_configs(key, configs.revision, configs.values, after)

        await self._swap(attempt, validate_only)

    async def alter_group_configs(
        self, name: str, change: ChangeConfigs, validate_only: bool = False, *, client_metrics: bool = False
    ) -> None:
        """Changes the settings of a group, which need not exist yet; or, with `client_metrics`, of a subscription of
        client metrics, which is gone without settings."""

        def attempt(image: Image) -> tuple[None, Swap]:
            configs = (image.client_metrics if client_metrics else image.group_configs).get(name, NO_CONFIGS)
            after = change(configs.values)
            if client_metrics:
                key = records.client_metrics_key(name)
            else:
                check_group(after, self._config)
                check_dead_letter_topic(image, name, after.get("share.dead.letter.topic", ""))
                key = records.group_config_key(name)
            return None, _put_configs(key, configs.revision, configs.values, after)

        await self._swap(attempt, validate_only)

    # Leaders

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition],
        unclean: bool,
        chosen: Mapping[TopicPartition, NodeId] | None = None,
    ) -> dict[TopicPartition, errors.TidelogError | None]:
        """Elects leaders; returns the error of each partition, None for success.  `chosen`: the brokers that shall lead
        after an unclean election."""
        outcome: dict[TopicPartition, errors.TidelogError | None] = {}
        for name in partitions:

            def attempt(image: Image, name: TopicPartition = name) -> tuple[None, Swap]:
                topic, partition = image.topics.get(name.topic), image.partition(*name)
                if topic is None or partition is None:
                    raise elections.unknown_partition(name, topic is not None)
                live = frozenset(broker.node_id for broker in image.live_brokers)
                if unclean:
                    record = elections.elect_unclean(partition, live, (chosen or {}).get(name))
                else:
                    record = elections.elect_preferred(partition, live)
                return None, _put_state(topic.id, partition.index, record, partition.revision)

            try:
                await self._swap(attempt)
                outcome[name] = None
            except errors.TidelogError as problem:
                outcome[name] = problem
        return outcome

    async def move_partitions(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], same_number: bool
    ) -> dict[TopicPartition, errors.TidelogError | None]:
        """Begins to reassign each partition to the brokers named, or cancels its reassignment (None); returns the error of
        each partition, None for success."""
        outcome: dict[TopicPartition, errors.TidelogError | None] = {}
        for name, target in wanted.items():

            def attempt(
                image: Image, name: TopicPartition = name, target: Sequence[int] | None = target
            ) -> tuple[None, Swap]:
                topic, partition = image.topics.get(name.topic), image.partition(*name)
                if topic is None or partition is None:
                    raise reassignments.unknown_partition(name, topic is not None)
                if target is None:
                    record: PartitionRecord | None = reassignments.cancel(partition)
                else:
                    record = reassignments.begin(partition, target, image.brokers, same_number)
                if record is None:
                    return None, Swap([], [])
                return None, _put_state(topic.id, partition.index, record, partition.revision)

            try:
                await self._swap(attempt)
                outcome[name] = None
            except errors.TidelogError as problem:
                outcome[name] = problem
        return outcome

    async def change_in_sync(self, changes: Sequence[InSyncChange]) -> None:
        """Shrinks and expands the ISRs of partitions that this broker leads.  Returns when the outcome of every change is
        known and applied on this broker: a change that is no longer possible is not an error."""
        # A change compares the partition's key, and the registration of a broker that joins.
        for batch in _batches(changes, self.store.operations_max // 2):
            await self._swap(partial(self._change_in_sync, batch))

    def _change_in_sync(self, changes: Sequence[InSyncChange], image: Image) -> tuple[None, Swap]:
        swap = Swap([], [])
        for change in changes:
            record = next_in_sync(image, self._node, change)
            partition = image.partition(*change.name)
            if record is None or partition is None:
                continue
            put = _put_state(change.topic_id, partition.index, record, partition.revision)
            swap.compare.extend(put.compare)
            swap.then.extend(put.then)
            joining = change.joining
            if joining is not None and joining.node in record.in_sync:
                # A broker that died meanwhile, or returned with fewer records, must not join the ISR.
                registered = Compare(records.broker_key(joining.node), joining.broker_epoch)
                if registered not in swap.compare:
                    swap.compare.append(registered)
        return None, swap

    async def give_up(self, name: TopicPartition, cause: Cause, reach: Callable[[], tuple[int, int]]) -> bool:
        """Puts this broker's replica in doubt, because it is damaged or its disk failed; if this broker leads, another
        holder takes over.  False if no other running holder could lead, or if this broker is not a holder."""

        def attempt(image: Image) -> tuple[bool, Swap]:
            topic, partition = image.topics.get(name.topic), image.partition(*name)
            if topic is None or partition is None:
                return False, Swap([], [])
            live = frozenset(broker.node_id for broker in image.live_brokers)
            record = replica_doubts.handed_over(partition, self._node, cause, reach, live)
            if record is None:
                return False, Swap([], [])
            return True, _put_state(topic.id, partition.index, record, partition.revision)

        return await self._swap(attempt)

    async def raise_epoch(self, name: TopicPartition) -> bool:
        """Starts a new epoch of the same leader, in which no follower has fetched yet: no fetch of the old epoch can let
        this broker join the ISR.  False if this broker is in the ISR, or if no other broker leads."""

        def attempt(image: Image) -> tuple[bool, Swap]:
            topic, partition = image.topics.get(name.topic), image.partition(*name)
            if topic is None or partition is None or partition.leader in (None, self._node):
                return False, Swap([], [])
            if self._node in partition.holders:
                return False, Swap([], [])
            record = elections.next_epoch(partition, partition.leader)
            return True, _put_state(topic.id, partition.index, record, partition.revision)

        return await self._swap(attempt)

    async def report(
        self, name: TopicPartition, next_state: Callable[[PartitionImage], PartitionRecord | None]
    ) -> bool:
        """Reports how far this broker's replica reaches, as `next_state` stores it.  False if there is nothing to report
        (any more)."""

        def attempt(image: Image) -> tuple[bool, Swap]:
            topic, partition = image.topics.get(name.topic), image.partition(*name)
            record = None if partition is None else next_state(partition)
            if topic is None or partition is None or record is None:
                return False, Swap([], [])
            return True, _put_state(topic.id, partition.index, record, partition.revision)

        return await self._swap(attempt)

    # Writing

    async def _swap(self, attempt: Callable[[Image], tuple[T, Swap]], validate_only: bool = False) -> T:
        """Decides on the newest image, and decides again if another broker has changed the same keys meanwhile."""
        for _ in range(TRIES_MAX):
            image = self._newest
            answer, swap = attempt(image)
            if validate_only:
                return answer
            if not swap.then:
                # An earlier try whose answer was lost may have stored the change: it has to be applied on this broker
                # before a caller relies on there being nothing to do.
                await self.reached(image.revision)
                return answer
            revision = await self.store.txn(swap.compare, await self._write_early(swap.then))
            if revision is not None:
                await self.reached(revision)
                return answer
            while self._newest is image:
                await self._advanced.wait()
        raise errors.RequestTimedOut("Other brokers keep changing the same metadata: try again.")

    async def _write_early(self, then: list[Operation]) -> list[Operation]:
        """Stores the states of a new topic's partitions first if they are too many for one transaction: no broker reads
        them before the topic's own key exists."""
        if len(then) <= self.store.operations_max:
            return then
        early = [
            operation
            for operation in then
            if isinstance(operation, Put) and operation.key.startswith(records.PARTITIONS)
        ]
        for batch in _batches(early, self.store.operations_max):
            await self.store.txn((), batch)
        return [operation for operation in then if operation not in early]


def new_id(random: Random) -> UUID:
    """A random id, never one that Kafka reserves, and never one whose text begins with '-' like an option."""
    while True:
        topic_id = UUID(int=random.getrandbits(128), version=4)
        if not urlsafe_b64encode(topic_id.bytes).startswith(b"-"):
            return topic_id


def _delete(
    wanted: Sequence[str | UUID], image: Image
) -> tuple[list[TopicImage | errors.TidelogError], Swap]:
    answers: list[TopicImage | errors.TidelogError] = []
    swap = Swap([], [])
    gone: set[UUID] = set()
    for name in wanted:
        topic = image.topics.get(name) if isinstance(name, str) else image.topic_by_id(name)
        if topic is None and isinstance(name, str):
            answers.append(errors.UnknownTopicOrPartition("This server does not host this topic-partition."))
            continue
        if topic is None:
            answers.append(errors.UnknownTopicId("This server does not host this topic ID."))
            continue
        answers.append(topic)
        if topic.id in gone:
            continue
        gone.add(topic.id)
        swap.compare.append(Compare(records.topic_key(topic.name), topic.revision))
        swap.then.append(Delete(records.topic_key(topic.name)))
        swap.then.append(Delete(records.topic_config_key(topic.name)))
        swap.then.append(DeletePrefix(records.partitions_prefix(topic.id)))
    return answers, swap


def _put_configs(key: str, revision: int, before: Mapping[str, str], after: Mapping[str, str]) -> Swap:
    if before == after:
        return Swap([], [])
    operation = Put(key, records.encode_configs(after)) if after else Delete(key)
    return Swap([Compare(key, revision)], [operation])


def _put_state(topic_id: UUID, index: int, record: PartitionRecord, revision: int) -> Swap:
    compare = Compare(records.partition_key(topic_id, index), revision)
    return Swap([compare], [records.put_partition(topic_id, index, record)])


def _batches(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))
