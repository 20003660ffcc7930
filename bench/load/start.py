"""How long a broker takes to answer, with an empty data folder and with a thousand partitions, and to stop."""

from __future__ import annotations

import time

from bench.admin import Admin, connect, receive
from bench.requests import ProduceFrame, check_produced, single
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System, timed_start
from tests.conformance.process import BrokerProcess

TOPICS, PARTITIONS = 10, 100


def run(system: System, scale: Scale) -> Samples:
    with system.broker() as broker:
        broker.start()
        broker.stop()
        empty = [_start_and_stop(broker) for _ in range(scale.starts)]
        broker.start()
        _fill(broker)
        begin = time.perf_counter()
        broker.stop()
        stopped = time.perf_counter() - begin
        filled = [_start_and_stop(broker) for _ in range(scale.starts)]
    return {"start-empty": empty, "start-filled": filled, "stop-filled": [stopped]}


def _start_and_stop(broker: BrokerProcess) -> float:
    seconds = timed_start(broker)
    broker.stop()
    return seconds


def _fill(broker: BrokerProcess) -> None:
    """A record in every partition."""
    with Admin(broker.port) as admin, connect(broker.port) as connection:
        for number in range(TOPICS):
            topic = admin.create_topic(f"filled-{number}", PARTITIONS)
            for partition in range(PARTITIONS):
                connection.sendall(ProduceFrame(topic, partition, single(1000), None).renew(0))
                start = receive(connection, 4)
                check_produced(start + receive(connection, int.from_bytes(start, "big")))


SCENARIO = Scenario(
    "start",
    (
        Row("start-empty", "start, empty data folder", "s"),
        Row("start-filled", "start, 1,000 clean partitions", "s", Goal(most=0.5)),
        Row("stop-filled", "clean stop, 1,000 partitions just written to", "s"),
    ),
    run,
)
