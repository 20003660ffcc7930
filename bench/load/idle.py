"""What a broker costs when nobody asks it for anything: empty, then with connections and partitions open."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

from bench import usage
from bench.admin import Admin, connect
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System
from bench.workload import CpuMeter
from tests.conformance.process import BrokerProcess

SETTLE_SECONDS = 10
TOPIC_PARTITIONS = 500


def run(system: System, scale: Scale) -> Samples:
    # Not stopped but killed at the end: syncing 10,000 partitions is not what is measured here.
    with system.broker() as broker, ExitStack() as open_connections:
        broker.start()
        empty = _cpu_per_minute(broker, scale)
        with Admin(broker.port) as admin:
            for number in range(_partitions(system, scale) // TOPIC_PARTITIONS):
                admin.create_topic(f"idle-{number}", TOPIC_PARTITIONS)
        for _ in range(scale.connections):
            open_connections.enter_context(_greeted(broker.port))
        filled = _cpu_per_minute(broker, scale)
        return {
            "idle-empty": [empty],
            "idle-filled": [filled],
            "idle-growth": [filled - empty],
            "idle-descriptors": [
                (usage.descriptors(broker.pid) - scale.connections) / _partitions(system, scale) * 1000
            ],
            "idle-memory": [usage.resident_mib(broker.pid)],
        }


def _partitions(system: System, scale: Scale) -> int:
    """Kafka takes minutes to create ten thousand on a small machine, and is measured with fewer."""
    return scale.kafka_partitions if system.name == "kafka" else scale.partitions


def _greeted(port: int) -> socket.socket:
    """A connection that a client has used once and holds open."""
    made = connect(port)
    made.sendall(bytes.fromhex("0000000a 0012 0000 00000000 0000"))  # ApiVersions 0, without a client id
    made.recv(1 << 16)
    return made


def _cpu_per_minute(broker: BrokerProcess, scale: Scale) -> float:
    time.sleep(SETTLE_SECONDS)
    meter = CpuMeter(broker)
    time.sleep(scale.idle_seconds)
    return meter.read() * 60 / scale.idle_seconds


SCENARIO = Scenario(
    "idle",
    (
        Row("idle-empty", "idle CPU, empty", "s/min"),
        Row("idle-filled", "idle CPU, 10,000 partitions (Kafka: 2,000), 1,000 connections", "s/min"),
        Row("idle-growth", "  growth over empty", "s/min", Goal(most=0.1)),
        Row("idle-descriptors", "  open descriptors for 1,000 partitions", "", Goal(ratio_most=0.5)),
        Row("idle-memory", "  memory", "MiB"),
    ),
    run,
)
