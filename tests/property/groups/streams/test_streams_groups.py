"""A streams group under any course of events: members join, leave, crash, miss answers and drag their feet; topics come,
grow and go; standbys are switched on and off.  No task is active twice, and no process has a task twice; when it calms
down everything runs; and the records give the state that lived through them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.groups.consumer.consumers import Service as Cluster
from tidelog import errors
from tidelog.config import BrokerConfig, GroupConfig
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.record_replay import new_machine
from tidelog.groups.record_types import KINDS
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.heartbeat import (
    StreamsFacts,
    can_follow,
    left,
    refreshed,
    streams_heartbeat,
)
from tidelog.groups.streams.member import StreamsMemberState
from tidelog.groups.streams.tasks import NOTHING_ASSIGNED, TaskAssignment, by_subtopology
from tidelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

GROUP = "app"
ROUNDS = 12
CLIENTS_MAX = 6
TOPOLOGY = Topology(
    0,
    [
        Subtopology("0", ["a"], state_changelog_topics=[TopicInfo("app-store-changelog")]),
        Subtopology("1", ["a", "b"]),
    ],
)


class Client:
    """What a thread of the application knows: it follows slowly, and forgets nothing."""

    def __init__(self, id: str, process: str) -> None:
        self.id, self.process = id, process
        self.epoch = 0
        self.told = NOTHING_ASSIGNED
        self.has = NOTHING_ASSIGNED


class StreamsGroups(RuleBasedStateMachine):
    @initialize(count=st.integers(1, 4))
    def start(self, count: int) -> None:
        self.cluster = Cluster()
        self.machine = new_machine()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.clients: dict[str, Client] = {}
        self.born = 0
        self.replicas = 0
        self.now_ms = 1_000_000
        self.sizes = {"a": count, "b": 2}
        for name, size in self.sizes.items():
            self.cluster.topic(name, size)
        self.comes("x")
        self.comes("y")

    # The broker

    @property
    def group(self) -> StreamsGroup:
        group = self.machine.groups.get(GROUP)
        return group if isinstance(group, StreamsGroup) else StreamsGroup(GROUP)

    def facts(self) -> StreamsFacts:
        config = GroupConfig(streams_num_standby_replicas=self.replicas)
        return StreamsFacts(self.cluster.image, BrokerConfig.of({}), config, self.now_ms)

    def write(self, entries: list[CoordinatorRecord]) -> None:
        for entry in entries:
            key, value = KINDS.encode(entry)
            self.log.append((key, value))
            decoded = KINDS.decode(key, value)
            assert decoded is not None
            self.machine.replay(decoded, -1)

    def beat(self, client: Client, owned: TaskAssignment | None, lost: bool = False, **fields: Any) -> None:
        request = StreamsGroupHeartbeatRequest(GROUP, client.id, client.epoch, **fields)
        if owned is not None:
            roles = [[TaskIds(*ids) for ids in by_subtopology(role)] for role in owned]
            request.active_tasks, request.standby_tasks, request.warmup_tasks = roles
        result = streams_heartbeat(self.group, request, ("client", "/host"), self.facts())
        self.write(result.entries)
        group = self.group
        group.configured, group.seen = result.configured, self.cluster.image.topics
        for topic in result.configured.missing:
            if topic.name not in self.sizes:
                self.cluster.topic(topic.name, topic.partitions)
                self.sizes[topic.name] = topic.partitions
        if not lost:
            client.epoch = result.member.epoch
            if result.assigned is not None:
                client.told = result.assigned

    def try_to_beat(self, client: Client, owned: TaskAssignment | None, lost: bool = False) -> None:
        try:
            self.beat(client, owned, lost)
        except (errors.FencedMemberEpoch, errors.InvalidRequest):
            self.join(client)  # a topic came back with fewer partitions, or too many answers were lost

    def join(self, client: Client) -> None:
        client.epoch, client.has, client.told = 0, NOTHING_ASSIGNED, NOTHING_ASSIGNED
        fields = {"rebalance_timeout_ms": 1000, "topology": TOPOLOGY, "process_id": client.process}
        self.beat(client, NOTHING_ASSIGNED, **fields)

    def pick(self, which: int) -> Client | None:
        clients = list(self.clients.values())
        return clients[which % len(clients)] if clients else None

    # Events

    @precondition(lambda self: len(self.clients) < CLIENTS_MAX)
    @rule(process=st.sampled_from("xyz"))
    def comes(self, process: str) -> None:
        self.born += 1
        client = Client(f"m{self.born}", process)
        self.join(client)
        self.clients[client.id] = client

    @rule(which=st.integers(0, 9), says=st.booleans(), lost=st.booleans())
    def beats(self, which: int, says: bool, lost: bool) -> None:
        if client := self.pick(which):
            self.try_to_beat(client, client.has if says else None, lost)

    @rule(which=st.integers(0, 9))
    def gives_back(self, which: int) -> None:
        if client := self.pick(which):
            roles = zip(client.has, client.told, strict=True)
            client.has = TaskAssignment(*(has & told for has, told in roles))

    @rule(which=st.integers(0, 9))
    def follows(self, which: int) -> None:
        if client := self.pick(which):
            client.has = client.told

    @precondition(lambda self: len(self.clients) > 2)
    @rule(which=st.integers(0, 9))
    def goes(self, which: int) -> None:
        if client := self.pick(which):
            del self.clients[client.id]
            self.write(left(self.group, client.id))

    @rule(which=st.integers(0, 9))
    def joins_again(self, which: int) -> None:
        if client := self.pick(which):
            self.join(client)

    @rule(name=st.sampled_from("ab"), size=st.integers(1, 5))
    def a_topic_grows(self, name: str, size: int) -> None:
        if size > self.sizes[name] and "app-store-changelog" not in self.sizes:
            self.sizes[name] = size
            self.cluster.topic(name, size)

    @rule(replicas=st.integers(0, 2))
    def standbys_are_set(self, replicas: int) -> None:
        self.replicas = replicas

    @rule()
    def everybody_takes_part(self) -> None:
        self.now_ms += 1000
        for client in self.clients.values():
            client.has = client.told
            self.try_to_beat(client, client.has)

    @rule(ms=st.sampled_from([10, 1000, 1000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        entries, configured = refreshed(self.group, self.facts())
        self.write(entries)
        if configured is not None:
            self.group.configured, self.group.seen = configured, self.cluster.image.topics

    # What always holds

    @invariant()
    def no_task_is_active_twice(self) -> None:
        members = self.group.members.values()
        active = Counter(
            task for member in members for task in member.assigned.active | member.revoking.active
        )
        assert not active or max(active.values()) == 1
        at_clients = Counter(task for client in self.clients.values() for task in client.has.active)
        assert not at_clients or max(at_clients.values()) == 1

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        copies = Counter(
            (member.process_id, task)
            for member in self.group.members.values()
            for role in (*member.assigned, *member.revoking)
            for task in role
        )
        assert not copies or max(copies.values()) == 1

    @invariant()
    def the_records_give_this_state(self) -> None:
        again = new_machine()
        for key, value in self.log:
            entry = KINDS.decode(key, value)
            assert entry is not None
            again.replay(entry, -1)
        group = again.groups.get(GROUP)
        assert (group is None) == (GROUP not in self.machine.groups)
        if isinstance(group, StreamsGroup):
            assert group.view() == self.group.view()

    def teardown(self) -> None:
        if not getattr(self, "clients", None):
            return
        for _ in range(ROUNDS):
            self.everybody_takes_part()
        group = self.group
        assert group.state_name == "Stable", group.members
        assert group.configured is not None
        every = {(id, index) for id, count in group.configured.tasks.items() for index in range(count)}
        assert {task for client in self.clients.values() for task in client.has.active} == every
        for client in self.clients.values():
            member = group.members[client.id]
            assert member.state is StreamsMemberState.STABLE and member.assigned == client.has
            assert not can_follow(group, member)
        processes = {client.process for client in self.clients.values()}
        wanted = min(self.replicas, len(processes) - 1)
        standby = Counter(task for client in self.clients.values() for task in client.has.standby)
        assert all(standby[task] == wanted for task in every if task[0] == "0")


TestStreamsGroups = StreamsGroups.TestCase
TestStreamsGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
