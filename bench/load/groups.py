"""Classic groups: what heartbeats and commits cost with 1,000 groups of 10 members, and how long a rebalance takes."""

from __future__ import annotations

from bench.admin import Admin
from bench.members import Member, commits, heartbeats, join, open_lanes, pace, race
from bench.rebalance import PARTITIONS, measure
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System
from bench.workload import CpuMeter
from tests.conformance.members import await_coordinator
from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection

EACH = 10
WAVE = 25  # groups that join at a time
COMMITTERS = 100
HEARTBEAT_SECONDS = 3.0  # what clients take between two
# All members of a new group arrive within this time, and make one generation.
SETTINGS = {"group.initial.rebalance.delay.ms": "500"}


def run(system: System, scale: Scale) -> Samples:
    with system.running(SETTINGS) as broker:
        with Connection(broker.bootstrap) as connection:
            await_coordinator(connection, "bench")
        samples = _many(broker, scale)
        with Admin(broker.port) as admin:
            topic = admin.create_topic("rebalance", PARTITIONS)
        joins, leaves = measure(broker.port, topic.name, scale.rounds)
        return {**samples, "group-join": joins, "group-leave": leaves}


def _many(broker: BrokerProcess, scale: Scale) -> Samples:
    lanes = open_lanes(broker.port, WAVE * EACH)
    members: list[Member] = []
    for start in range(0, scale.groups, WAVE):
        members += join(lanes, [f"group-{number}" for number in range(start, start + WAVE)], EACH)
    beats, rates, costs = [], [], []
    with Admin(broker.port) as admin:
        topic = admin.create_topic("commits", EACH)
    for _ in range(scale.rounds):
        frames = heartbeats(members)
        meter = CpuMeter(broker)
        pace(lanes, frames, HEARTBEAT_SECONDS * len(members) / 10_000)
        beats.append(meter.read() / len(frames) * 1e6)
        frames = commits(members, topic.name, EACH)
        for lane in lanes:  # what heartbeats are answered with, late
            lane.close()
        lanes = open_lanes(broker.port, WAVE * EACH)
        meter = CpuMeter(broker)
        load = race(lanes[:COMMITTERS], frames)
        costs.append(meter.read() / load.amount * 1e6)
        rates.append(load.amount / load.seconds)
    for lane in lanes:
        lane.close()
    return {"group-heartbeat": beats, "group-commit": costs, "group-commit-rate": rates}


SCENARIO = Scenario(
    "groups",
    (
        Row("group-heartbeat", "1,000 groups of 10: CPU of a heartbeat", "us each"),
        Row("group-commit", "  CPU of an offset commit", "us each", Goal(most=100)),  # 10,000 a second
        Row("group-commit-rate", "  offset commits, 100 connections", "commits/s"),
        Row("group-join", "third member joins (cooperative-sticky)", "s", Goal(most=1, ratio_most=0.5)),
        Row("group-leave", "  leaves", "s"),
    ),
    run,
)
