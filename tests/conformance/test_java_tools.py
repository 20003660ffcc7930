"""Apache Kafka's own command line tools, and with them its Java clients.  Skipped where their jars are absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.clients import CODECS, Message, confluent_consume, confluent_produce
from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection
from tests.conformance.topics import append, await_leaders, list_offset, new_producer_id, values

pytestmark = pytest.mark.kafka


def test_kafka_topics(kafka_tools: Any, bootstrap: str, connection: Connection, name: Any) -> None:
    fresh, server = name(), ("--bootstrap-server", bootstrap)
    create = ("--create", "--topic", fresh, "--partitions", "2", "--replication-factor", "1")
    kafka_tools("topics", *server, *create, "--config", "retention.ms=60000")
    await_leaders(connection, fresh, 2)
    assert fresh in kafka_tools("topics", *server, "--list").split()
    described = kafka_tools("topics", *server, "--describe", "--topic", fresh)
    assert "PartitionCount: 2" in described
    assert "retention.ms=60000" in described
    assert described.count("Leader: 1") == 2
    kafka_tools("topics", *server, "--alter", "--topic", fresh, "--partitions", "3")
    await_leaders(connection, fresh, 3)
    kafka_tools("topics", *server, "--delete", "--topic", fresh)
    assert fresh not in kafka_tools("topics", *server, "--list").split()


def test_kafka_configs(kafka_tools: Any, bootstrap: str, topic: Any) -> None:
    known, server = topic(), ("--bootstrap-server", bootstrap)
    entity = ("--entity-type", "topics", "--entity-name", known)
    kafka_tools("configs", *server, "--alter", *entity, "--add-config", "max.message.bytes=2000,flush.ms=500")
    described = kafka_tools("configs", *server, "--describe", *entity)
    assert "max.message.bytes=2000" in described
    assert "flush.ms=500" in described
    kafka_tools("configs", *server, "--alter", *entity, "--delete-config", "flush.ms")
    assert "flush.ms" not in kafka_tools("configs", *server, "--describe", *entity)
    broker = ("--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "log.segment.bytes=1073741824" in kafka_tools("configs", *server, "--describe", *broker)


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_console_producer(codec: str, kafka_tools: Any, bootstrap: str, topic: Any) -> None:
    known = topic()
    options = ("--topic", known, "--compression-codec", codec, "--reader-property", "parse.key=true")
    lines = "".join(f"k{i}\tvalue {i}\n" for i in range(20))
    kafka_tools("console-producer", "--bootstrap-server", bootstrap, *options, stdin=lines)
    found = confluent_consume(bootstrap, known, 20)
    assert [(r.message.key, r.message.value) for r in found] == [
        (b"k%d" % i, b"value %d" % i) for i in range(20)
    ]


def test_kafka_console_consumer_reads_all_codecs(kafka_tools: Any, bootstrap: str, topic: Any) -> None:
    known = topic()
    for index, codec in enumerate(CODECS):
        confluent_produce(bootstrap, known, [Message(b"v%d" % index, b"k", (("h", codec.encode()),))], codec)
    options = (
        "--topic",
        known,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        str(len(CODECS)),
    )
    shown = [f"--formatter-property=print.{what}=true" for what in ("key", "headers", "offset")]
    out = kafka_tools("console-consumer", "--bootstrap-server", bootstrap, *options, *shown)
    assert out.splitlines() == [f"Offset:{i}\th:{codec}\tk\tv{i}" for i, codec in enumerate(CODECS)]


def test_kafka_console_producer_waits_for_all_by_default(
    kafka_tools: Any, bootstrap: str, connection: Connection, name: Any
) -> None:
    fresh = name()  # created by writing
    kafka_tools(
        "console-producer", "--bootstrap-server", bootstrap, "--topic", fresh, "--sync", stdin="a\nb\n"
    )
    assert values(connection, fresh) == [b"a", b"b"]


def test_kafka_get_offsets(kafka_tools: Any, bootstrap: str, topic: Any) -> None:
    known = topic(partitions=2)
    confluent_produce(bootstrap, known, [Message(b"x")] * 7, partition=1)
    ask = ("--bootstrap-server", bootstrap, "--topic", known)
    assert kafka_tools("get-offsets", *ask, "--time", "latest").split() == [f"{known}:0:0", f"{known}:1:7"]
    assert kafka_tools("get-offsets", *ask, "--time", "earliest").split() == [f"{known}:0:0", f"{known}:1:0"]
    found = kafka_tools("get-offsets", *ask, "--time", "max-timestamp").split()
    assert any(line.startswith(f"{known}:1:") for line in found)


def test_kafka_delete_records(
    kafka_tools: Any, bootstrap: str, connection: Connection, topic: Any, tmp_path: Path
) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"x")] * 7)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": known, "partition": 0, "offset": 5}], "version": 1}))
    out = kafka_tools("delete-records", "--bootstrap-server", bootstrap, "--offset-json-file", str(plan))
    assert "low_watermark: 5" in out
    assert list_offset(connection, known, -2).offset == 5


def test_kafka_log_dirs(kafka_tools: Any, bootstrap: str, connection: Connection, topic: Any) -> None:
    known = topic()
    sent = batch([b"x" * 500])
    append(connection, known, sent)
    out = kafka_tools("log-dirs", "--bootstrap-server", bootstrap, "--describe", "--topic-list", known)
    found = json.loads(out.splitlines()[-1])
    (partition,) = found["brokers"][0]["logDirs"][0]["partitions"]
    assert (partition["partition"], partition["size"]) == (f"{known}-0", len(sent))


def test_kafka_dump_log_reads_the_segments(
    kafka_tools: Any, bootstrap: str, broker: BrokerProcess, connection: Connection, topic: Any
) -> None:
    known = topic(config={"segment.bytes": str(1 << 20)})
    producer_id, epoch = new_producer_id(connection)
    append(connection, known, batch([Record(b"v", b"k", (("h", b"1"),))], codec="gzip"))
    append(connection, known, batch([b"x"], producer_id=producer_id, producer_epoch=epoch, base_sequence=0))
    for index in range(6):
        append(connection, known, batch([bytes([index]) * 300_000]))
    folder = broker.data / f"{known}-0"
    segments = sorted(folder.glob("*.log"))
    assert len(segments) >= 2
    assert all(len(segment.stem) == 20 for segment in segments)
    for segment in segments:
        out = kafka_tools("dump-log", "--files", str(segment), "--deep-iteration", "--print-data-log")
        assert "isvalid: true" in out
        assert "isvalid: false" not in out
    first = kafka_tools("dump-log", "--files", str(segments[0]), "--deep-iteration", "--print-data-log")
    assert "baseOffset: 0 lastOffset: 0 count: 1" in first
    assert f"producerId: {producer_id}" in first
    assert "compresscodec: gzip" in first
    assert "key: k payload: v" in first
    for kind in ("index", "timeindex"):
        for file in sorted(folder.glob(f"*.{kind}"))[:-1]:
            out = kafka_tools(
                "dump-log",
                "--files",
                str(file),
                "--index-sanity-check" if kind == "index" else "--verify-index-only",
            )
            assert "Found" not in out


def test_kafka_features(kafka_tools: Any, bootstrap: str) -> None:
    out = kafka_tools("features", "--bootstrap-server", bootstrap, "describe")
    assert "Feature: metadata.version" in out


def test_kafka_broker_api_versions(kafka_tools: Any, bootstrap: str) -> None:
    out = kafka_tools("broker-api-versions", "--bootstrap-server", bootstrap)
    assert bootstrap in out
    assert "Produce(0): 0 to 13 [usable: 13]" in out
    assert "Fetch(1): 4 to 18 [usable: 18]" in out


def test_kafka_producer_perf_test(
    kafka_tools: Any, bootstrap: str, connection: Connection, topic: Any
) -> None:
    known = topic(partitions=2)
    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    properties = [f"bootstrap.servers={bootstrap}", "acks=all", "compression.type=lz4"]
    out = kafka_tools("producer-perf-test", "--topic", known, *load, "--command-property", *properties)
    assert "20000 records sent" in out
    assert sum(list_offset(connection, known, -1, partition).offset for partition in (0, 1)) == 20_000


def test_kafka_cluster(kafka_tools: Any, bootstrap: str) -> None:
    assert "Cluster ID" in kafka_tools("cluster", "cluster-id", "--bootstrap-server", bootstrap)


def test_kafka_leader_election(kafka_tools: Any, bootstrap: str, topic: Any) -> None:
    ask = (
        "--bootstrap-server",
        bootstrap,
        "--election-type",
        "preferred",
        "--topic",
        topic(),
        "--partition",
        "0",
    )
    assert "Valid replica already elected" in kafka_tools("leader-election", *ask)
