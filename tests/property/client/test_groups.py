"""Members of a classic group against a small coordinator: they join, leave, die, come back, are slow to apply what
they are told, and no partition ever has two readers that the coordinator knows."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog import errors
from tidelog.client.groups.assignors import assignors_of
from tidelog.client.groups.classic_membership import ClassicMembership
from tidelog.client.groups.membership import CoordinatorRequest
from tidelog.types import TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.leave_group import LeaveGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PARTITIONS = 7
ALL = {TopicPartition("t", at) for at in range(PARTITIONS)}


class Reader:
    def __init__(self, strategy: str) -> None:
        self.machine = ClassicMembership(
            "g",
            assignors_of(strategy),
            session_timeout_ms=10,
            rebalance_timeout_ms=10,
            heartbeat_interval_ms=1,
        )
        self.machine.subscribed(["t"])
        self.owned: set[TopicPartition] = set()
        self.held = False  # its request waits at the coordinator
        self.id = ""


class Coordinator:
    def __init__(self) -> None:
        self.members: dict[str, Reader] = {}
        self.pending: set[str] = set()  # ids given out
        self.joined: dict[str, JoinGroupRequest] = {}
        self.waiting: dict[str, Reader] = {}  # for their assignment
        self.assignments: dict[str, bytes] | None = None
        self.generation = 0
        self.leader = ""
        self.rebalancing = False
        self.ids = 0

    def ask(self, reader: Reader, request: Any, now: float) -> None:
        if isinstance(request, JoinGroupRequest):
            self._join(reader, request, now)
        elif isinstance(request, SyncGroupRequest):
            self._sync(reader, request, now)
        elif isinstance(request, HeartbeatRequest):
            reader.machine.answered(HeartbeatResponse(error_code=self._heartbeat(request)), now)
        else:
            self.remove(request.members[0].member_id, now)
            reader.machine.answered(LeaveGroupResponse(), now)

    def _join(self, reader: Reader, request: JoinGroupRequest, now: float) -> None:
        if not request.member_id:
            self.ids += 1
            reader.id = f"m{self.ids}"
            self.pending.add(reader.id)
            reader.machine.answered(
                JoinGroupResponse(error_code=errors.MemberIdRequired.code, member_id=reader.id), now
            )
        elif request.member_id not in self.members and request.member_id not in self.pending:
            reader.machine.answered(JoinGroupResponse(error_code=errors.UnknownMemberId.code), now)
        else:
            self.pending.discard(reader.id)
            self.members[reader.id] = reader
            self.joined[reader.id] = request
            reader.held = True
            self.rebalance(now)

    def rebalance(self, now: float) -> None:
        self.rebalancing, self.assignments = True, None
        for member, reader in list(self.waiting.items()):
            del self.waiting[member]
            reader.held = False
            reader.machine.answered(SyncGroupResponse(error_code=errors.RebalanceInProgress.code), now)
        if self.members and set(self.joined) >= set(self.members):
            self._complete(now)

    def _complete(self, now: float) -> None:
        self.generation += 1
        self.rebalancing = False
        self.leader = min(self.members)
        joined, self.joined = self.joined, {}
        listed = [
            JoinGroupResponseMember(one, None, joined[one].protocols[0].metadata) for one in self.members
        ]
        for member, reader in self.members.items():
            reader.held = False
            answer = JoinGroupResponse(
                generation_id=self.generation,
                protocol_name=joined[member].protocols[0].name,
                leader=self.leader,
                member_id=member,
                members=listed if member == self.leader else [],
            )
            reader.machine.answered(answer, now)

    def _sync(self, reader: Reader, request: SyncGroupRequest, now: float) -> None:
        code = self._known(request.member_id, request.generation_id)
        if not code and self.rebalancing:
            code = errors.RebalanceInProgress.code
        if code:
            reader.machine.answered(SyncGroupResponse(error_code=code), now)
            return
        if request.member_id == self.leader and self.assignments is None:
            self.assignments = {one.member_id: one.assignment for one in request.assignments}
        reader.held = True
        self.waiting[request.member_id] = reader
        if self.assignments is not None:
            for member, other in list(self.waiting.items()):
                del self.waiting[member]
                other.held = False
                other.machine.answered(SyncGroupResponse(assignment=self.assignments.get(member, b"")), now)

    def _heartbeat(self, request: HeartbeatRequest) -> int:
        code = self._known(request.member_id, request.generation_id)
        return code or (errors.RebalanceInProgress.code if self.rebalancing else 0)

    def _known(self, member: str, generation: int) -> int:
        if member not in self.members:
            return errors.UnknownMemberId.code
        return 0 if generation == self.generation else errors.IllegalGeneration.code

    def remove(self, member: str, now: float) -> None:
        """It left, or its session has ended."""
        reader = self.members.pop(member, None)
        if reader is None:
            return
        if self.joined.pop(member, None) is not None:
            reader.held = False
            reader.machine.answered(JoinGroupResponse(error_code=errors.UnknownMemberId.code), now)
        if self.waiting.pop(member, None) is not None:
            reader.held = False
            reader.machine.answered(SyncGroupResponse(error_code=errors.UnknownMemberId.code), now)
        self.rebalance(now)


class Group:
    def __init__(self, strategy: str, random: Random) -> None:
        self.coordinator = Coordinator()
        self.readers: list[Reader] = []
        self.strategy = strategy
        self.random = random
        self.now = 0.0

    def work(self, reader: Reader) -> None:
        machine = reader.machine
        if machine.change is not None and self.random.random() < 0.5:
            reader.owned = set(machine.change.owned)
            machine.applied()
            self.check()
            return
        if reader.held:
            return
        step = machine.due(self.now)
        if isinstance(step, CoordinatorRequest):
            self.coordinator.ask(reader, step.request, self.now)
        elif step is not None:
            machine.looked_up({"t": PARTITIONS}, {}, self.now)

    def step(self) -> None:
        self.now += self.random.random()
        chance = self.random.random()
        if chance < 0.03 and len(self.readers) < 5:
            self.readers.append(Reader(self.strategy))
        elif chance < 0.05 and self.coordinator.members:
            # A session ends, whether or not its reader still lives.
            self.coordinator.remove(self.random.choice(sorted(self.coordinator.members)), self.now)
        elif chance < 0.06 and self.readers:
            # The driver looks at the time between two requests only.
            late = self.random.choice(self.readers)
            if not late.held:
                late.machine.expired()
        elif chance < 0.07 and self.readers:
            gone = self.readers.pop(self.random.randrange(len(self.readers)))
            if (leaving := gone.machine.leave()) is not None:
                self.coordinator.remove(leaving.request.members[0].member_id, self.now)
        elif self.readers:
            self.work(self.random.choice(self.readers))

    def check(self) -> None:
        """Of those that the coordinator knows, in the generation that it is in."""
        seen: set[TopicPartition] = set()
        for reader in self.coordinator.members.values():
            if reader.machine.in_group and reader in self.readers:
                assert not seen & reader.owned, "two readers of one partition"
                seen |= reader.owned

    def quiet(self) -> bool:
        return (
            all(one.machine.change is None and not one.held and one.machine.in_group for one in self.readers)
            and not self.coordinator.rebalancing
        )


@settings(deadline=None)
@given(st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]), st.integers(0, 2**32))
def test_no_partition_has_two_readers_and_in_the_end_each_has_one(strategy: str, seed: int) -> None:
    group = Group(strategy, Random(seed))
    group.readers.append(Reader(strategy))
    for _ in range(400):
        group.step()
    if not group.readers:
        group.readers.append(Reader(strategy))
    # Whoever died without a word is found out by the coordinator.
    for member, reader in list(group.coordinator.members.items()):
        if reader not in group.readers:
            group.coordinator.remove(member, group.now)
    for _ in range(5_000):
        group.now += 1
        group.work(group.random.choice(group.readers))
    assert group.quiet()
    owned = [one for reader in group.readers for one in reader.owned]
    assert sorted(owned) == sorted(ALL)
