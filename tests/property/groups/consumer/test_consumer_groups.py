"""A consumer group under any course of events: clients join, leave, crash, miss answers and drag their feet, topics come,
grow and go.  Nobody reads a partition that another one reads; when it calms down everything is read; and the records give
the state that lived through them."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle as Bundled
from hypothesis.stateful import RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.property.groups.consumer.consumers import (
    GROUP,
    ClassicClient,
    Client,
    Place,
    Service,
    places,
    replay,
)
from tidelog import errors
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import STATIC_LEFT_EPOCH, MemberState
from tidelog.groups.record_replay import new_machine

TOPICS = ["a", "b", "ab"]
# Mostly the same few, so that members meet.
subscriptions = st.sampled_from([{"a"}, {"a"}, {"a", "b"}, {"b", "ab"}, set(TOPICS), set()])
expressions = st.sampled_from(["", "", "a.*", "b|ab", "x+"])
assignors = st.sampled_from([None, "uniform", "range"])
ROUNDS = 12


class Groups(RuleBasedStateMachine):
    clients = Bundled("clients")

    @initialize(counts=st.tuples(st.integers(2, 4), st.integers(0, 3), st.integers(0, 2)))
    def start(self, counts: tuple[int, int, int]) -> None:
        self.service = Service()
        self.live: list[Client] = []
        self.old: list[ClassicClient] = []
        self.views: list[Any] = []
        self.count = 0
        for name, count in zip(TOPICS, counts, strict=True):
            self.service.topic(name, count)

    # Clients

    @rule(target=clients, topics=subscriptions, regex=expressions, assignor=assignors, static=st.booleans())
    def comes(self, topics: set[str], regex: str, assignor: str | None, static: bool) -> Client:
        self.count += 1
        client = Client(self.service, f"m{self.count}", f"i{self.count}" if static else None)
        client.join(topics, regex, assignor)
        self.live.append(client)
        return client

    @rule(client=clients, lost=st.booleans())
    def beats(self, client: Client, lost: bool) -> None:
        if client.in_group:
            self.try_to(client, lambda: client.beat(lost))

    @rule(client=clients)
    def beats_fully(self, client: Client) -> None:
        if client.in_group:
            self.try_to(client, client.beat_fully)

    @rule(client=clients, topics=subscriptions, regex=expressions)
    def subscribes_to_something_else(self, client: Client, topics: set[str], regex: str) -> None:
        if client.in_group:
            self.try_to(
                client,
                lambda: client.send(subscribed_topic_names=sorted(topics), subscribed_topic_regex=regex),
            )

    @rule(client=clients)
    def revokes(self, client: Client) -> None:
        client.revoke()

    @rule(client=clients)
    def follows(self, client: Client) -> None:
        client.follow()

    @rule(client=clients)
    def joins_again(self, client: Client) -> None:
        """It lost its way, gave up what it had, and begins anew."""
        if client.in_group and client.instance_id is None:
            member = self.service.group.members[client.id]
            client.join(member.topics, member.regex)

    @rule(client=consumes(clients))
    def leaves(self, client: Client) -> None:
        if client.in_group:
            client.leave()
            self.live.remove(client)

    @rule(client=clients)
    def steps_out_and_comes_back_under_another_id(self, client: Client) -> None:
        if client.in_group and client.instance_id is not None:
            member = self.service.group.members[client.id]
            client.leave(STATIC_LEFT_EPOCH)
            client.id = f"{client.id}'"
            client.join(member.topics, member.regex)

    @rule(client=consumes(clients))
    def dies(self, client: Client) -> None:
        """Its session ends: whatever it still does is nobody's concern."""
        if client.in_group:
            self.service.expire(client.id)
            self.live.remove(client)
            client.in_group = False
            refused = None
            try:
                client.beat()
            except errors.TidelogError as problem:
                refused = problem
            assert isinstance(refused, errors.UnknownMemberId)

    # Classic members, while the group migrates

    @rule(topics=subscriptions, cooperative=st.booleans())
    def a_classic_member_comes(self, topics: set[str], cooperative: bool) -> None:
        if self.live and len(self.old) < 3:
            self.count += 1
            client = ClassicClient(self.service, f"c{self.count}", cooperative, topics)
            client.join()
            self.old.append(client)

    @rule(which=st.integers(0, 2), sync=st.booleans())
    def a_classic_member_looks_for_news(self, which: int, sync: bool) -> None:
        if which < len(self.old):
            client = self.old[which]
            if client.must_rejoin():
                client.join()
            if sync:
                with suppress(errors.RebalanceInProgress):
                    client.sync()

    @rule(which=st.integers(0, 2))
    def a_classic_member_dies(self, which: int) -> None:
        if which < len(self.old):
            self.service.expire(self.old.pop(which).id)

    def try_to(self, client: Client, act: Any) -> None:
        """A client that is fenced gives up its partitions and joins again."""
        try:
            act()
        except errors.FencedMemberEpoch:
            member = self.service.group.members[client.id]
            topics, regex = member.topics, member.regex
            client.owned = set()
            if client.instance_id is not None:
                client.leave(STATIC_LEFT_EPOCH)
            client.join(topics, regex)

    # The cluster

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(0, 5))
    def topic_changes(self, name: str, partitions: int) -> None:
        topic = self.service.image.topics.get(name)
        if topic is None or partitions == 0 or partitions > len(topic.partitions):
            self.service.topic(name, partitions)

    @rule(by_ms=st.sampled_from([10, 400, 1500]), follow_up=st.booleans())
    def time_passes(self, by_ms: int, follow_up: bool) -> None:
        self.service.now_ms += by_ms
        if follow_up:
            self.service.follow_up()

    @rule()
    def restarts(self) -> None:
        self.service.machine = self.service.loaded()

    @rule()
    def calms_down(self) -> None:
        for _ in range(ROUNDS):
            self.service.now_ms += 1500
            self.service.follow_up()
            for client in self.live:
                client.revoke()
                client.follow()
                self.try_to(client, client.beat)
            for client in self.old:
                client.rejoin_if_told()
        if not self.live and not self.old:
            return
        group = self.service.group
        assert group.state_name == "Stable", group
        self.check_everything_is_read(group)
        before = len(self.service.batches)
        self.service.follow_up()
        for client in self.live:
            client.beat()
        assert len(self.service.batches) == before, "something changed although nothing happened"

    def everybody(self) -> list[Client | ClassicClient]:
        return [*getattr(self, "live", ()), *getattr(self, "old", ())]

    def check_everything_is_read(self, group: ConsumerGroup) -> None:
        image = self.service.image
        wanted: set[Place] = set()
        for client in self.everybody():
            topics = {name for name in group.topics_of(group.members[client.id]) if name in image.topics}
            mine = {image.topics[name].id for name in topics}
            assert {topic for topic, _ in client.owned} <= mine
            wanted |= {
                (image.topics[name].id, at)
                for name in topics
                for at in range(len(image.topics[name].partitions))
            }
        assert set().union(*(client.owned for client in self.everybody())) == wanted

    # What must hold at any time

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        seen: dict[Place, str] = {}
        for client in self.everybody():
            for place in client.owned:
                assert place not in seen, f"{place} is read by {seen[place]} and {client.id}"
                seen[place] = client.id

    @invariant()
    def the_state_is_sound(self) -> None:
        group = getattr(self, "service", Service()).machine.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        assert group.assignment_epoch <= group.epoch
        owners: dict[Place, str] = {}
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch
            assert bool(member.revoking) <= (member.state is MemberState.UNREVOKED)
            for place in (*places(member.assigned), *places(member.revoking)):
                assert place not in owners, f"{place}: {owners[place]} and {member.id}"
                owners[place] = member.id
        assert owners == {
            (topic, at): owner for topic, some in group.owners.items() for at, owner in some.items()
        }
        assert set(group.targets) <= set(group.members)
        assert set(group.resolved) == {member.regex for member in group.members.values() if member.regex}
        assert set(group.static.values()) <= set(group.members)

    @invariant()
    def a_load_gives_the_same_state(self) -> None:
        service = getattr(self, "service", None)
        if service is None or len(service.batches) == len(self.views):
            return
        view = service.machine.groups[GROUP].view() if GROUP in service.machine.groups else None
        loaded = service.loaded().groups.get(GROUP)
        assert (None if loaded is None else loaded.view()) == view
        self.views += [None] * (len(service.batches) - len(self.views) - 1)
        self.views.append(deepcopy(view))

    def teardown(self) -> None:
        """From any prefix of the batches comes the state there was when they were all."""
        if not hasattr(self, "service"):
            return
        machine = new_machine()
        for at, batch in enumerate(self.service.batches):
            replay(machine, batch)
            view = self.views[at] if at < len(self.views) else None
            if view is not None:
                group = machine.groups[GROUP]
                assert isinstance(group, ConsumerGroup) and group.view() == view


TestConsumerGroups = Groups.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_classic_member_that_joined_before_it_calmed_down() -> None:
    groups = Groups()
    groups.start(counts=(2, 0, 0))
    gone = groups.comes(topics={"a"}, regex="", assignor=None, static=False)
    groups.dies(gone)
    groups.comes(topics={"a"}, regex="", assignor=None, static=False)
    groups.time_passes(by_ms=1500, follow_up=False)
    groups.a_classic_member_comes(topics={"a"}, cooperative=False)
    groups.calms_down()
