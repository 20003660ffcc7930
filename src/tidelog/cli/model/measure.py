"""Figures for `tidelog model` from a broker: consumers started here, or a group that is watched.

Consumers are processes of their own, as they are in earnest.  Each has its share of the partitions, says when it is
connected, and starts at a sign, so that what is timed is reading and work alone."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from tidelog.cli.session import CommandSession, Failure, run
from tidelog.model.figures import Figure
from tidelog.model.queueing import fitted_service, time_in_system
from tidelog.model.scalability import Scalability

WORKER_S_MAX = 600.0
SAMPLES = 10
WORKER = """
import pickle, sys, time
from tidelog import Consumer, TopicPartition
bootstrap, topic, start, step, partitions, work_s = sys.argv[1:]
security = pickle.loads(bytes.fromhex(sys.stdin.readline())).security()  # not an argument, which everybody can read
mine = [TopicPartition(topic, index) for index in range(int(start), int(partitions), int(step))]
with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", security=security) as consumer:
    consumer.assign(mine)
    left = sum(consumer.end_offsets(mine).values())
    print("ready", flush=True)
    sys.stdin.readline()
    while left > 0:
        records = consumer.poll(1000, max_records=500)
        left -= len(records)
        if float(work_s):
            for _ in records:
                time.sleep(float(work_s))
    print(time.monotonic(), flush=True)
"""


def measured(
    session: CommandSession, numbers: Sequence[int], records: int, size: int, work_s: float
) -> list[Figure]:
    """Throughput of each number of consumers over the same records."""
    import math
    import uuid

    topic = f"tidelog-model-{uuid.uuid4().hex[:12]}"
    # As many partitions as deal out evenly whatever the number of consumers, within reason.
    partitions = math.lcm(*numbers)
    if partitions > 128:
        partitions = numbers[-1] * 4
    run(_fill(session, topic, partitions, records, size))
    try:
        figures = []
        for number in numbers:
            click.echo(f"measuring with {number} consumers ...", err=True)
            taken_s = _timed(session, topic, number, partitions, work_s)
            figures.append(Figure(number, throughput=records / taken_s))
        return figures
    finally:
        run(_delete(session, topic))


async def _fill(session: CommandSession, topic: str, partitions: int, records: int, size: int) -> None:
    from tidelog.aio import NewTopic, Producer

    async with session.admin() as admin:
        await admin.create_topics([NewTopic(topic, partitions=partitions)])
    async with Producer(
        bootstrap_servers=session.bootstrap, security=session.security, linger_ms=20, batch_size=65536
    ) as producer:
        for number in range(records):
            await producer.send(topic, b"x" * size, partition=number % partitions)
        await producer.flush()


async def _delete(session: CommandSession, topic: str) -> None:
    async with session.admin() as admin:
        await admin.delete_topics([topic])


def _timed(session: CommandSession, topic: str, number: int, partitions: int, work_s: float) -> float:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, session.bootstrap, topic]
            + [str(argument) for argument in (start, number, partitions, work_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for start in range(number)
    ]
    try:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(pickle.dumps(session.login).hex() + "\n")
            worker.stdin.flush()
        for worker in workers:
            assert worker.stdout is not None
            if worker.stdout.readline() != "ready\n":
                raise Failure("a consumer could not start: see its messages above")
        begun = time.monotonic()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        ended = [float(worker.communicate(timeout=WORKER_S_MAX)[0] or "nan") for worker in workers]
    except subprocess.TimeoutExpired:
        raise Failure(
            f"{number} consumers did not end within {WORKER_S_MAX:g} s: try fewer --records"
        ) from None
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    if any(moment != moment for moment in ended):
        raise Failure("a consumer failed: see its messages above")
    return max(ended) - begun


@dataclass(frozen=True)
class Watched:
    """A group, seen over some seconds."""

    group: str
    members: int
    arrival: float
    throughput: float
    depth: float  # the mean lag
    growth: float  # of the lag, records a second

    @property
    def saturated(self) -> bool:
        """The members work all the time: the lag grows, or they eat up an old one as fast as they can."""
        return self.depth > 0 and abs(self.growth) > 0.05 * max(self.arrival, self.throughput)

    @property
    def latency_s(self) -> float:
        return time_in_system(self.depth, self.throughput)

    def law(self) -> Scalability:
        if self.saturated:
            service = self.throughput / self.members
        else:
            # No lag at all is less than one record: the smallest that can be told.
            depth = max(self.depth, self.arrival / 1000)
            service = fitted_service([(self.arrival, self.members, time_in_system(depth, self.arrival))])
        if service <= 0:
            raise Failure(
                f"group {self.group!r} committed no offsets in this time: watch it while it processes records"
            )
        return Scalability(service, 0.0, 0.0)

    def figure(self) -> Figure:
        return Figure(self.members, self.throughput or None, self.arrival, self.latency_s * 1000, self.depth)

    def text(self) -> str:
        state = "saturated" if self.saturated else "keeping up"
        return (
            f"{self.group}: {self.members} members, {self.arrival:,.1f} records/s arrive, {self.throughput:,.1f} are "
            f"done, {self.depth:,.1f} wait on average ({state}); by Little's law a record takes "
            f"{self.latency_s * 1000:,.1f} ms"
        )

    def json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "members": self.members,
            "throughput": self.throughput,
            "depth": self.depth,
            "latency_ms": self.latency_s * 1000,
            "saturated": self.saturated,
        }


def watched(session: CommandSession, group: str, seconds: float) -> Watched:
    return run(_watched(session, group, seconds))


async def _watched(session: CommandSession, group: str, seconds: float) -> Watched:
    async with session.admin() as admin:
        described = (await admin.describe_groups([group]))[group]
        if not described.members:
            raise Failure(f"group {group!r} has no members: start its consumers first")
        samples: list[tuple[float, int, int]] = []
        for number in range(SAMPLES + 1):
            if number:
                await asyncio.sleep(seconds / SAMPLES)
            committed = await admin.list_group_offsets(group)
            lags = await admin.group_lag(
                {partition: offset.offset for partition, offset in committed.items()}
            )
            done = sum(offset.offset for offset in committed.values())
            samples.append((time.monotonic(), done, sum(lag.end for lag in lags.values())))
        if not committed:
            raise Failure(f"group {group!r} has committed no offsets yet")
    (began, first_done, first_end), (ended, done, end) = samples[0], samples[-1]
    lags_seen = [one_end - one_done for _, one_done, one_end in samples]
    taken = max(ended - began, 1e-9)
    growth = (lags_seen[-1] - lags_seen[0]) / taken
    mean = sum(lags_seen) / len(lags_seen)
    rates = ((end - first_end) / taken, (done - first_done) / taken)
    if rates[0] <= 0 and rates[1] <= 0:
        raise Failure(f"group {group!r} had no new records and committed no offsets in {seconds:g} s")
    return Watched(group, len(described.members), *rates, mean, growth)
