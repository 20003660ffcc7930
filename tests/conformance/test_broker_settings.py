"""Settings of a stock Kafka in a process, and settings whose effect is seen from outside."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import consumer_members as codes
from tests.conformance.clients import Message, confluent_consume, confluent_produce
from tests.conformance.consumer_members import ConsumerMember
from tests.conformance.members import Member, await_coordinator, committed
from tests.conformance.process import free_port
from tests.conformance.raw import Connection
from tests.conformance.streams_members import StreamsMember, subtopology, topology

# The keys of Kafka's own config/server.properties for a broker that is also a controller.
STOCK = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={folder}
num.partitions=3
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
file.delete.delay.ms=60000
log.initial.task.delay.ms=30000
metric.reporters=com.example.Reporter
group.streams.num.standby.replicas=1
create.topic.policy.class.name=com.example.Policy
principal.builder.class=com.example.Builder
my.own.setting=1
"""
COMPRESSION_BITS = 7
ATTRIBUTES_AT = 21


def test_the_properties_of_a_stock_distribution_start_a_broker(tmp_path: Path, can_run: None) -> None:
    port, properties = free_port(), tmp_path / "server.properties"
    properties.write_text(
        STOCK.format(port=port, controller_port=free_port(), folder=tmp_path / "kraft-combined-logs")
    )
    command = [str(Path(sys.executable).parent / "tidelog"), "serve", "--config", str(properties)]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--http", "127.0.0.1:0"], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while "ready kafka=" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        bootstrap = f"127.0.0.1:{port}"
        confluent_produce(bootstrap, "orders", [Message(b"first")])
        assert [read.message.value for read in confluent_consume(bootstrap, "orders", 1)] == [b"first"]
        with Connection(bootstrap) as connection:
            (made,) = connection.call("metadata", 1, topics=[{"name": "orders"}]).topics
            assert len(made.partitions) == 3
        told = log.read_text()
        assert "unknown setting 'my.own.setting'" in told
        for name in (
            "controller.quorum.bootstrap.servers",
            "create.topic.policy.class.name",
            "metric.reporters",
        ):
            assert name in told, "a setting without effect is named, with the reason"
        assert "num.partitions" not in told
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize("broker_settings", [{"group.coordinator.rebalance.protocols": "classic"}])
def test_protocols_of_groups_can_be_switched_off(own_broker: Any, broker_settings: dict[str, str]) -> None:
    broker = own_broker({**broker_settings, "offsets.topic.num.partitions": "1"})
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "g")
        consumer, streams = ConsumerMember(broker.bootstrap, "g"), StreamsMember(broker.bootstrap, "g")
        assert consumer.join("orders") == codes.UNSUPPORTED_VERSION
        assert streams.join(topology(subtopology("0", "orders"))) == codes.UNSUPPORTED_VERSION
        assert consumer.describe().error_code == codes.UNSUPPORTED_VERSION
        assert streams.describe().error_code == codes.UNSUPPORTED_VERSION
        assert Member(broker.bootstrap, "g").form().commit("orders", 1) in (0, 3)


def test_the_offsets_topic_is_compressed_if_asked_for(own_broker: Any) -> None:
    broker = own_broker({"offsets.topic.compression.codec": "4", "offsets.topic.num.partitions": "1"})
    confluent_produce(broker.bootstrap, "orders", [Message(b"x")])
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "g")
        member = Member(broker.bootstrap, "g").form()
        for offset in range(50):
            assert member.commit("orders", offset) == 0
        member.close()
    broker.stop()
    log = (broker.data / "__consumer_offsets-0" / "00000000000000000000.log").read_bytes()
    codecs, at = set(), 0
    while at < len(log):
        codecs.add(int.from_bytes(log[at + ATTRIBUTES_AT : at + ATTRIBUTES_AT + 2], "big") & COMPRESSION_BITS)
        at += 12 + int.from_bytes(log[at + 8 : at + 12], "big")
    assert codecs == {4}
    broker.start()
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "g")
        assert committed(connection, "g", "orders") == 49


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("group.coordinator.rebalance.protocols", "consumer", "classic"),
        ("group.share.assignors", "mine", "simple"),
        ("log.cleaner.threads", "-1", "log.cleaner.threads"),
        ("log.cleaner.io.max.bytes.per.second", "0", "log.cleaner.io.max.bytes.per.second"),
        ("offsets.topic.compression.codec", "5", "offsets.topic.compression.codec"),
        ("group.streams.num.standby.replicas", "3", "group.streams.max.standby.replicas"),
    ],
)
def test_an_impossible_value_stops_the_start(tmp_path: Path, name: str, value: str, why: str) -> None:
    command = [str(Path(sys.executable).parent / "tidelog"), "serve", "--data", str(tmp_path / "data")]
    command += ["--listen", f"127.0.0.1:{free_port()}", "--http", "127.0.0.1:0", "--set", f"{name}={value}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and why in ended.stderr and "Traceback" not in ended.stderr
