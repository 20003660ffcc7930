"""The driver of metadata: follows the store, and changes it by compare-and-swap.

`follow` is its pulse: the broker's own task iterates over it, applies each update (opens logs, moves leadership) and
only then asks for the next, which is when `image` moves on.  So what `image` shows is open here, and a change is
answered when it has taken effect.  Decisions are taken on the newest image known, and again when a swap fails."""

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
from tidelog.metadata import changes, doubts, elections, moves, planning, records
from tidelog.metadata.access_controller import AccessController, Swap
from tidelog.metadata.changes import Update
from tidelog.metadata.gathering import gathered
from tidelog.metadata.image import NO_CONFIGS, Image, Topic
from tidelog.metadata.in_sync_changes import InSyncChange, next_in_sync
from tidelog.metadata.names import check_topic_name, plain_names
from tidelog.metadata.planning import NewPartitions, NewTopic, Plan
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
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.metadata")

T = TypeVar("T")
Planned = Plan | errors.TidelogError
ChangeConfigs = Callable[[Mapping[str, str]], Mapping[str, str]]

TRIES_MAX = 20
OPERATIONS_A_TOPIC = 3  # its own key, its settings, those of its partitions


class Controller:
    def __init__(
        self, store: MetadataStore, node: NodeId, config: BrokerConfig, random: Random, image: Image
    ) -> None:
        """Use `start`."""
        self._store = store
        self._node = node
        self._random = random
        self._known = image
        self._applied = image
        self._start_config = config
        self._config = config.with_dynamic(image.broker_overrides(None), image.broker_overrides(node))
        self._moved = asyncio.Event()  # what is known has
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # by revision
        self._tickets = count()
        self.access = AccessController(self._swap, store.operations_max, random)

    @staticmethod
    async def start(store: MetadataStore, node: NodeId, config: BrokerConfig, random: Random) -> Controller:
        """Reads the image."""
        if await store.get(records.CLUSTER) is None:
            cluster_id = urlsafe_b64encode(new_id(random).bytes).rstrip(b"=")
            await store.txn([Compare(records.CLUSTER, ABSENT)], [Put(records.CLUSTER, cluster_id)])
        return Controller(store, node, config, random, changes.read(await store.range("")))

    async def read_again(self) -> None:
        """As at the start; only as long as nobody follows."""
        self._known = self._applied = image = changes.read(await self._store.range(""))
        overrides = image.broker_overrides(None), image.broker_overrides(self._node)
        self._config = self._start_config.with_dynamic(*overrides)

    # What is known

    @property
    def image(self) -> Image:
        """The metadata as this broker has applied it."""
        return self._applied

    def config(self) -> BrokerConfig:
        """This broker's settings, with those changed while it runs."""
        return self._config

    def topic_config(self, name: str) -> TopicConfig:
        return TopicConfig.of(self._known.topic_overrides(name), self._config.topic_defaults)

    async def follow(self) -> AsyncGenerator[Update, None]:
        """Every update in order, for ever.  One consumer: asking for the next says that the last is applied."""
        closed = False
        while not closed:
            watch = self._store.watch("", self._known.revision + 1)
            try:
                async with aclosing(watch), aclosing(gathered(watch)) as steps:
                    async for some in steps:
                        update = self._learn(changes.advance(self._known, *some))
                        yield update
                        self._apply(update)
                closed = True
            except Compacted:
                update = self._learn(changes.catch_up(self._known, await self._read_all()))
                yield update
                self._apply(update)

    async def _read_all(self) -> Snapshot:
        """Waits while the store is away, as a watch does."""
        while True:
            try:
                return await self._store.range("")
            except Unanswered as problem:
                log.warning("the metadata cannot be read now: %s", problem)

    async def reached(self, revision: int) -> None:
        """Returns once this broker has applied that revision."""
        if self._applied.revision < revision:
            # Thousands may wait, each for a revision of its own: only those whose turn has come are woken.
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (revision, next(self._tickets), turn))
            await turn

    def _learn(self, update: Update) -> Update:
        self._known = update.image
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
        self._moved.set()
        self._moved = asyncio.Event()

    # Topics.  Each call answers for every topic in order, and returns when what changed can be used here.

    async def create_topics(self, wanted: Sequence[NewTopic], validate_only: bool = False) -> list[Planned]:
        answers: list[Planned] = []
        planning.check_total(wanted, self._config)
        for some in _batches(wanted, self._store.operations_max // OPERATIONS_A_TOPIC):
            answers += await self._swap(partial(self._create, some), validate_only)
        return answers

    def _create(self, wanted: Sequence[NewTopic], image: Image) -> tuple[list[Planned], Swap]:
        taken = plain_names(image.topics)
        answers: list[Planned] = []
        swap = Swap([], [])
        new: set[str] = set()
        for one in wanted:
            topic_id, start = new_id(self._random), self._random.randrange(1 << 16)
            try:
                if one.name in new:
                    raise errors.TopicAlreadyExists(f"topic {one.name!r} is asked for twice")
                plan = planning.plan_topic(image, one, self._config, taken, topic_id, start)
            except errors.TidelogError as problem:
                answers.append(problem)
                continue
            new.add(plan.name)
            taken.update(plain_names((plan.name,)))
            answers.append(plan)
            swap.compare.append(Compare(records.topic_key(plan.name), ABSENT))
            swap.then.extend(plan.puts())
        return answers, swap

    async def create_partitions(
        self, wanted: Sequence[NewPartitions], validate_only: bool = False
    ) -> list[Planned]:
        answers: list[Planned] = []
        for one in wanted:
            answers += await self._swap(partial(self._grow, one), validate_only)
        return answers

    def _grow(self, wanted: NewPartitions, image: Image) -> tuple[list[Planned], Swap]:
        try:
            topic, plan = planning.plan_partitions(image, wanted, self._random.randrange(1 << 16))
            if len(plan.states) + OPERATIONS_A_TOPIC > self._store.operations_max:
                raise errors.PolicyViolation(
                    f"{len(plan.states)} partitions are too many to add while some of their brokers are not running"
                )
        except errors.TidelogError as problem:
            return [problem], Swap([], [])
        return [plan], Swap([Compare(records.topic_key(topic.name), topic.revision)], [*plan.puts()])

    async def delete_topics(self, wanted: Sequence[str | UUID]) -> list[Topic | errors.TidelogError]:
        answers: list[Topic | errors.TidelogError] = []
        for some in _batches(wanted, self._store.operations_max // OPERATIONS_A_TOPIC):
            answers += await self._swap(partial(_delete, some))
        return answers

    # Settings

    async def alter_topic_configs(
        self, name: str, change: ChangeConfigs, validate_only: bool = False
    ) -> None:
        def attempt(image: Image) -> tuple[None, Swap]:
            topic = image.topics.get(name)
            if topic is None:
                raise errors.UnknownTopicOrPartition(f"no topic {name!r} here: check the name, or create it")
            configs = image.topic_configs.get(name, NO_CONFIGS)
            after = change(configs.values)
            TopicConfig.of(after, self._config.topic_defaults).check()
            swap = _put_configs(records.topic_config_key(name), configs.revision, configs.values, after)
            # Settings must not outlive a topic that is deleted meanwhile.
            swap.compare.append(Compare(records.topic_key(name), topic.revision))
            return None, swap

        await self._swap(attempt, validate_only)

    async def alter_broker_configs(
        self, node: NodeId | None, change: ChangeConfigs, validate_only: bool = False
    ) -> None:
        """Of one broker, or None: of all brokers."""

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
        self, name: str, change: ChangeConfigs, validate_only: bool = False
    ) -> None:
        """A group need not be there: its settings wait for it."""

        def attempt(image: Image) -> tuple[None, Swap]:
            configs = image.group_configs.get(name, NO_CONFIGS)
            after = change(configs.values)
            check_group(after, self._config)
            _check_dead_letter_topic(after.get("share.dead.letter.topic", ""))
            return None, _put_configs(records.group_config_key(name), configs.revision, configs.values, after)

        await self._swap(attempt, validate_only)

    # Leaders

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition],
        unclean: bool,
        chosen: Mapping[TopicPartition, NodeId] | None = None,
    ) -> dict[TopicPartition, errors.TidelogError | None]:
        """What came of it for each partition; None is success.  `chosen`: who shall lead after an unclean election."""
        outcome: dict[TopicPartition, errors.TidelogError | None] = {}
        for name in partitions:

            def attempt(image: Image, name: TopicPartition = name) -> tuple[None, Swap]:
                topic, partition = image.topics.get(name.topic), image.partition(*name)
                if topic is None or partition is None:
                    raise errors.UnknownTopicOrPartition(f"no partition {name} here")
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
        """Begins to move each partition to the brokers named, or calls its move off (None); None as outcome is success."""
        outcome: dict[TopicPartition, errors.TidelogError | None] = {}
        for name, target in wanted.items():

            def attempt(
                image: Image, name: TopicPartition = name, target: Sequence[int] | None = target
            ) -> tuple[None, Swap]:
                topic, partition = image.topics.get(name.topic), image.partition(*name)
                if topic is None or partition is None:
                    raise errors.UnknownTopicOrPartition(f"no partition {name} here")
                if target is None:
                    record: PartitionRecord | None = moves.cancel(partition)
                else:
                    record = moves.begin(partition, target, image.brokers, same_number)
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
        """The leader's side of in-sync sets.  Returns when the outcome of every change is known and applied here: a
        change that another state made impossible is no error."""
        # A change compares the partition's key, and the registration of a broker that joins.
        for some in _batches(changes, self._store.operations_max // 2):
            await self._swap(partial(self._change_in_sync, some))

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
                # A broker that died meanwhile, or came back with less, must not slip in.
                registered = Compare(records.broker_key(joining.node), joining.broker_epoch)
                if registered not in swap.compare:
                    swap.compare.append(registered)
        return None, swap

    async def give_up(self, name: TopicPartition, cause: Cause, reach: Callable[[], tuple[int, int]]) -> bool:
        """This broker's replica is not good any more: it is in doubt, and if it led, another holder leads.  False when
        no other holder runs that could lead, or when this broker is no holder."""

        def attempt(image: Image) -> tuple[bool, Swap]:
            topic, partition = image.topics.get(name.topic), image.partition(*name)
            if topic is None or partition is None:
                return False, Swap([], [])
            live = frozenset(broker.node_id for broker in image.live_brokers)
            record = doubts.handed_over(partition, self._node, cause, reach, live)
            if record is None:
                return False, Swap([], [])
            return True, _put_state(topic.id, partition.index, record, partition.revision)

        return await self._swap(attempt)

    async def raise_epoch(self, name: TopicPartition) -> bool:
        """The same leader goes on in a new epoch, in which no follower has asked it for anything yet: this broker joins the
        in-sync set by no request of the old one.  False when it is in the set, or nobody else leads."""

        def attempt(image: Image) -> tuple[bool, Swap]:
            topic, partition = image.topics.get(name.topic), image.partition(*name)
            if topic is None or partition is None or partition.leader in (None, self._node):
                return False, Swap([], [])
            if self._node in partition.holders:
                return False, Swap([], [])
            record = elections.next_epoch(partition, partition.leader)
            return True, _put_state(topic.id, partition.index, record, partition.revision)

        return await self._swap(attempt)

    async def report_rolled_back(
        self, name: TopicPartition, reach: Callable[[], tuple[int, int]], last_epoch: Callable[[], int]
    ) -> bool:
        """The metadata of a partition are older than the log of its replica here, or of another one.  False when there
        is nothing to report (any more)."""

        def attempt(image: Image) -> tuple[bool, Swap]:
            topic, partition = image.topics.get(name.topic), image.partition(*name)
            record = (
                None if partition is None else doubts.rolled_back(partition, self._node, reach, last_epoch)
            )
            if topic is None or partition is None or record is None:
                return False, Swap([], [])
            return True, _put_state(topic.id, partition.index, record, partition.revision)

        return await self._swap(attempt)

    # Writing

    async def _swap(self, attempt: Callable[[Image], tuple[T, Swap]], validate_only: bool = False) -> T:
        """Decides on the newest image; decides anew when somebody else was faster."""
        for _ in range(TRIES_MAX):
            image = self._known
            answer, swap = attempt(image)
            if validate_only:
                return answer
            if not swap.then:
                # What was decided on may have been stored by an earlier try whose answer was lost: it has to be
                # applied here before anybody relies on there being nothing to do.
                await self.reached(image.revision)
                return answer
            revision = await self._store.txn(swap.compare, await self._write_early(swap.then))
            if revision is not None:
                await self.reached(revision)
                return answer
            while self._known is image:
                await self._moved.wait()
        raise errors.RequestTimedOut("others keep changing the same metadata: try again")

    async def _write_early(self, then: list[Operation]) -> list[Operation]:
        """The states of a new topic's partitions can go ahead when they are too many for one transaction: nobody
        looks at them before the topic's own key is there."""
        if len(then) <= self._store.operations_max:
            return then
        early = [one for one in then if isinstance(one, Put) and one.key.startswith(records.PARTITIONS)]
        for some in _batches(early, self._store.operations_max):
            await self._store.txn((), some)
        return [one for one in then if one not in early]


def new_id(random: Random) -> UUID:
    """Random, never one of the few that Kafka reserves, and never with a text that starts like an option."""
    while True:
        found = UUID(int=random.getrandbits(128), version=4)
        if not urlsafe_b64encode(found.bytes).startswith(b"-"):
            return found


def _delete(wanted: Sequence[str | UUID], image: Image) -> tuple[list[Topic | errors.TidelogError], Swap]:
    answers: list[Topic | errors.TidelogError] = []
    swap = Swap([], [])
    gone: set[UUID] = set()
    for one in wanted:
        topic = image.topics.get(one) if isinstance(one, str) else image.topic_by_id(one)
        if topic is None and isinstance(one, str):
            answers.append(errors.UnknownTopicOrPartition(f"no topic {one!r} here: check the name"))
            continue
        if topic is None:
            answers.append(errors.UnknownTopicId(f"no topic has the id {one}"))
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


def _check_dead_letter_topic(topic: str) -> None:
    try:
        if topic:
            check_topic_name(topic)
    except errors.InvalidTopicException as problem:
        raise errors.InvalidConfig(f"share.dead.letter.topic: {problem}") from None


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
