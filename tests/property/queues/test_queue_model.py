"""A queue on a broker, with crashes at any step, against a model that is a list."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.queues.queue_cluster import QUEUE, QueueCluster, positions
from tidelog.queues.message import Delivery, Position, QueueMessage
from tidelog.queues.session import QueueSession

pytestmark = pytest.mark.simulated

LETTERS = "letters"
SESSIONS = 3
PRIORITIES = 3


class Publish(NamedTuple):
    priority: int


class Acquire(NamedTuple):
    session: int
    count: int


class Settle(NamedTuple):
    session: int
    how: str
    which: int
    """A bit for each record that the session holds."""


class Close(NamedTuple):
    session: int


class Crash(NamedTuple):
    pass


STEPS = st.lists(
    st.one_of(
        st.builds(Publish, st.integers(0, PRIORITIES - 1)),
        st.builds(Publish, st.integers(0, PRIORITIES - 1)),
        st.builds(Acquire, st.integers(0, SESSIONS - 1), st.integers(1, 4)),
        st.builds(
            Settle,
            st.integers(0, SESSIONS - 1),
            st.sampled_from(["acknowledge", "release", "reject"]),
            st.integers(1, 255),
        ),
        st.builds(Close, st.integers(0, SESSIONS - 1)),
        st.just(Crash()),
    ),
    max_size=25,
)


class QueueModel:
    """What waits, who holds what, and how often each record was delivered: as the broker keeps it, and in this run."""

    def __init__(self, priorities: bool, records_max: int | None) -> None:
        self.priorities = priorities
        self.records_max = records_max
        self.waiting: set[Position] = set()
        self.held: dict[Position, int] = {}
        self.kept_count: dict[Position, int] = {}
        self.count: dict[Position, int] = {}
        self.values: dict[Position, bytes] = {}
        self.dead: set[bytes] = set()

    def in_order(self) -> list[Position]:
        return sorted(self.waiting, key=lambda position: (-position[0], position[1]))

    def trimmed(self) -> None:
        """Each partition is bounded by itself."""
        for partition in range(PRIORITIES):
            own = sorted(position for position in self.waiting if position[0] == partition)
            for position in own[: -self.records_max] if self.records_max is not None else []:
                self.waiting.remove(position)
                self.dead.add(self.values[position])

    def acquired(self, session: int, count: int) -> list[tuple[Position, int]]:
        self.trimmed()
        taken = self.in_order()[:count]
        for position in taken:
            self.waiting.remove(position)
            self.held[position] = session
            self.count[position] = self.count.get(position, 0) + 1
        return [(position, self.count[position]) for position in taken]

    def settled(self, position: Position, how: str) -> None:
        del self.held[position]
        if how == "release":
            self.waiting.add(position)
            self.kept_count[position] = self.count[position]
        elif how == "reject":
            self.dead.add(self.values[position])

    def of(self, session: int) -> list[Position]:
        return sorted(position for position, holder in self.held.items() if holder == session)

    def crashed(self) -> None:
        """Being acquired is not kept."""
        for position in self.held:
            self.waiting.add(position)
            self.count[position] = self.kept_count.get(position, 0)
        self.held.clear()


class QueueAtWork:
    def __init__(self, cluster: QueueCluster, model: QueueModel) -> None:
        self.cluster = cluster
        self.model = model
        self.sessions: dict[int, QueueSession] = {}

    def session(self, number: int) -> QueueSession:
        if number not in self.sessions:
            self.sessions[number] = self.cluster.session()
        return self.sessions[number]

    async def do(self, number: int, step: Publish | Acquire | Settle | Close | Crash) -> None:
        model = self.model
        if isinstance(step, Publish):
            value = b"%d" % number
            partition = step.priority if model.priorities else 0
            published = await self.cluster.queues().publish(QUEUE, QueueMessage(value), partition)
            model.values[published] = value
            model.waiting.add(published)
            model.trimmed()
        elif isinstance(step, Acquire):
            taken = await self.session(step.session).acquire(step.count)
            self.check(taken, model.acquired(step.session, step.count))
        elif isinstance(step, Settle):
            held = model.of(step.session)
            chosen = [position for at, position in enumerate(held) if step.which >> at & 1]
            await getattr(self.session(step.session), step.how)(chosen)
            for position in chosen:
                model.settled(position, step.how)
        elif isinstance(step, Close):
            if step.session in self.sessions:
                await self.sessions.pop(step.session).close()
            for position in model.of(step.session):
                model.settled(position, "release")
        else:
            await self.cluster.crash()
            self.sessions.clear()
            model.crashed()

    def check(self, taken: list[Delivery], expected: list[tuple[Position, int]]) -> None:
        assert [(delivery.position, delivery.deliveries) for delivery in taken] == expected
        assert [delivery.value for delivery in taken] == [
            self.model.values[position] for position, _ in expected
        ]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, priorities=st.booleans(), records_max=st.sampled_from([None, None, 2]))
async def test_a_queue_does_what_a_list_does(
    random: Random,
    steps: list[Publish | Acquire | Settle | Close | Crash],
    priorities: bool,
    records_max: int | None,
) -> None:
    model = QueueModel(priorities, records_max)
    cluster = await QueueCluster(random).start(
        PRIORITIES if priorities else 1,
        queue_priorities=str(priorities).lower(),
        queue_max_records=str(records_max or -1),
    )
    await cluster.make(LETTERS)
    await cluster.configure(share_delivery_count_limit="-1", share_dead_letter_topic=LETTERS)
    work = QueueAtWork(cluster, model)
    for number, step in enumerate(steps):
        await work.do(number, step)
    for number in range(SESSIONS):
        await work.do(0, Close(number))
    rest = await cluster.session().acquire(100, wait_ms=5_000 if model.waiting else 0)
    work.check(rest, model.acquired(0, 100))
    letters, session = set[bytes | None](), cluster.session(name=LETTERS)
    while letters != model.dead:
        taken = await session.acquire(100, wait_ms=10_000)
        assert taken, f"letters that are missing: {model.dead - letters}"
        letters |= {delivery.value for delivery in taken}
        assert letters <= model.dead
        await session.acknowledge(positions(taken))
