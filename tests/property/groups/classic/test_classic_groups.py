"""Classic groups against what members must be able to rely on, whatever comes in whatever order, with crashes between."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.property.groups.classic.classic_world import (
    Client,
    JoinGroupResponse,
    World,
    loaded,
    partitions_of,
    recorded,
    replay,
    view,
)
from tidelog import errors
from tidelog.groups.classic.group import ClassicState
from tidelog.groups.classic.rebalance import RebalanceSettings

PARTITIONS = range(4)
CLIENTS = st.integers(0, 4)


class ClassicGroups(RuleBasedStateMachine):
    """Clients 0 and 1 are static.  All are eager, or all are cooperative."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(RebalanceSettings(100, 5, 100))
        self.clients: list[Client] = []
        self.offsets: dict[int, int] = {}
        self.owners: dict[tuple[int, int], str] = {}
        """Who was given a partition in a generation."""
        self.generation = 0

    @rule(cooperative=st.booleans())
    @precondition(lambda self: not self.clients)
    def begin(self, cooperative: bool) -> None:
        self.clients = [Client(f"c{n}", f"i{n}" if n < 2 else None, cooperative) for n in range(5)]

    # Requests

    @rule(n=CLIENTS)
    @precondition(lambda self: self.clients)
    def join(self, n: int) -> None:
        client = self.clients[n]
        if not client.cooperative:
            client.has = set()
        try:
            self.world.join(client)
        except errors.UnknownMemberId:
            self._forgotten(client)
        self._take_answers()

    @rule(n=CLIENTS, shares=st.lists(CLIENTS, min_size=4, max_size=4), forget=st.booleans())
    @precondition(lambda self: self.clients)
    def sync(self, n: int, shares: list[int], forget: bool) -> None:
        client = self.clients[n]
        if client.generation < 0 or client.waits_for:
            return
        given: dict[str, set[int]] = {}
        if client.leads and client.others and not forget:
            # As a cooperative leader does: what somebody else owns is given to nobody yet.
            owned = {p: c.member_id for c in self.clients for p in c.has} if client.cooperative else {}
            for partition, share in zip(PARTITIONS, shares, strict=True):
                wanted = client.others[share % len(client.others)].member_id
                if owned.get(partition, wanted) == wanted:
                    given.setdefault(wanted, set()).add(partition)
        try:
            self.world.sync(client, given)
        except errors.TidelogError as problem:
            self._refused(client, problem)
        self._take_answers()

    @rule(n=CLIENTS)
    @precondition(lambda self: self.clients)
    def heartbeat(self, n: int) -> None:
        client = self.clients[n]
        if client.generation < 0:
            return
        try:
            state = self.world.heartbeat(client)
        except errors.TidelogError as problem:
            self._refused(client, problem)
        else:
            group = self.world.group
            assert group is not None and client.member_id in group.members
            assert state is not ClassicState.EMPTY and client.generation == group.generation

    @rule(n=CLIENTS)
    @precondition(lambda self: self.clients)
    def leave(self, n: int) -> None:
        client = self.clients[n]
        if client.member_id:
            self.world.leave(client)
            self._forgotten(client)
            self._take_answers()

    @rule(n=CLIENTS, partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 9), back=st.integers(0, 2))
    @precondition(lambda self: self.clients)
    def commit(self, n: int, partition: int, offset: int, back: int) -> None:
        client = self.clients[n]
        if client.generation - back < 0:
            return  # as one that assigns itself: an empty group takes it from anybody
        before = self.world.machine.offsets.view()
        group = self.world.group
        current = group is not None and client.generation - back == group.generation
        client.generation -= back
        try:
            self.world.commit(client, partition, offset)
        except errors.TidelogError:
            assert self.world.machine.offsets.view() == before
        else:
            assert current and group is not None and client.member_id in group.members
            self.offsets[partition] = offset
        finally:
            client.generation += back

    @rule(who=st.sets(CLIENTS, min_size=1), shares=st.lists(CLIENTS, min_size=4, max_size=4))
    @precondition(lambda self: self.clients)
    def settle(self, who: set[int], shares: list[int]) -> None:
        """Some clients do what they should until they are in a generation together."""
        for _ in range(4):
            for n in sorted(who):
                client = self.clients[n]
                if client.waits_for:
                    continue
                self.heartbeat(n)
                group = self.world.group
                if client.generation < 0 or group is None or group.state is ClassicState.PREPARING:
                    self.join(n)
            initial = self.world.deadlines.get(("initial", ""))
            if initial is not None:
                self.world.pass_deadline(initial)
                self._take_answers()
            for n in sorted(who, key=lambda n: not self.clients[n].leads):
                group = self.world.group
                if group is not None and group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
                    self.sync(n, shares, False)

    # Whatever else happens

    @rule(at=st.integers(0, 99))
    @precondition(lambda self: self.clients and self.world.deadlines)
    def time_passes(self, at: int) -> None:
        if self.world.group is None:
            return
        deadlines = sorted(
            self.world.deadlines.values(), key=lambda deadline: (deadline.name, deadline.member_id)
        )
        self.world.pass_deadline(deadlines[at % len(deadlines)])
        self._take_answers()

    @rule()
    @precondition(lambda self: self.clients)
    def crash(self) -> None:
        group = self.world.group
        self.world.restart()
        for client in self.clients:
            client.waits_for = ""
        after = self.world.group
        # What was handed out lives on; a rebalance that was under way begins again.
        if after is not None:
            assert group is not None and after.generation <= group.generation
            self.generation = after.generation

    # What clients make of answers

    def _take_answers(self) -> None:
        by_name = {client.name: client for client in self.clients}
        answers, self.world.answers = self.world.answers, []
        for name, answer in answers:
            client = by_name[name]
            if isinstance(answer, JoinGroupResponse):
                self._joined(client, answer)
            else:
                self._synced(client, answer)

    def _joined(self, client: Client, answer: Any) -> None:
        client.waits_for = ""
        if answer.error_code == errors.NONE:
            assert answer.generation_id >= self.generation
            self.generation = answer.generation_id
            client.member_id, client.generation = answer.member_id, answer.generation_id
            client.leads, client.others = answer.leader == answer.member_id, list(answer.members)
            if client.leads and not answer.skip_assignment:
                assert client.member_id in [other.member_id for other in client.others] or not client.others
        elif answer.error_code == errors.MemberIdRequired.code:
            client.member_id, client.generation = answer.member_id, -1
        elif answer.error_code in (errors.UnknownMemberId.code, errors.FencedInstanceId.code):
            self._forgotten(client)

    def _synced(self, client: Client, answer: Any) -> None:
        client.waits_for = ""
        if answer.error_code != errors.NONE:
            return
        client.has = partitions_of(answer.assignment)
        who = client.instance or client.member_id  # a static member may come back in the same generation
        for partition in client.has:
            assert self.owners.setdefault((client.generation, partition), who) == who

    def _refused(self, client: Client, problem: errors.TidelogError) -> None:
        client.waits_for = ""
        if isinstance(problem, errors.UnknownMemberId | errors.FencedInstanceId):
            self._forgotten(client)
        elif isinstance(problem, errors.IllegalGeneration):
            client.generation, client.has = -1, set()
        else:
            assert isinstance(problem, errors.RebalanceInProgress)

    def _forgotten(self, client: Client) -> None:
        client.member_id, client.generation, client.has, client.waits_for = "", -1, set(), ""

    # What always holds

    @invariant()
    def offsets_are_those_that_were_committed(self) -> None:
        offsets = self.world.machine.offsets.of("group")
        assert {partition: committed.offset for (_, partition), committed in offsets.items()} == self.offsets

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever waits for a rebalance has a deadline that ends it."""
        group, deadlines = self.world.group, self.world.deadlines
        if group is None:
            return
        if group.state is ClassicState.PREPARING and any(member.joining for member in group.members.values()):
            assert ("join", "") in deadlines or ("initial", "") in deadlines
        if group.state in (ClassicState.PREPARING, ClassicState.EMPTY):
            assert not any(member.syncing for member in group.members.values())
        if group.state is ClassicState.COMPLETING:
            assert ("sync", "") in deadlines
        if group.state is ClassicState.STABLE and group.withheld:
            assert ("withheld", "") in deadlines
        for member in group.members.values():
            assert member.joining or member.syncing or ("session", member.id) in deadlines

    @invariant()
    def members_fit_together(self) -> None:
        group = self.world.group
        if group is None:
            return
        assert (not group.members) == (
            group.state is ClassicState.EMPTY
        ) or group.state is ClassicState.PREPARING
        assert {
            member.instance_id: member.id for member in group.members.values() if member.instance_id
        } == group.static
        assert group.leader is None or group.leader in group.members
        assert group.unsynced | group.withheld <= set(group.members)

    def teardown(self) -> None:
        """A broker that finds any part of the log knows what it said, and nothing else."""
        machine = loaded([])
        for seen, batch in zip(self.world.views, [*self.world.log, []], strict=True):
            groups = {name: recorded(group) for name, group in machine.groups.items()}
            assert view(groups, machine) == seen
            replay(machine, batch)


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
