"""How long little input makes a broker stand still: `python -m bench.stalls [case ...]`.

A process of its own asks the broker for its versions once a millisecond while a case is sent on another connection.
The longest wait for one of these answers is the longest stall of the broker's loop, as its clients see it."""

from __future__ import annotations

import multiprocessing
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.batches import Record, batch, encode_record
from tests.conformance.process import free_port
from tests.conformance.raw import Connection, ConnectionClosed, encode_request
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.record import Codec, compress

TICK_S = 0.001
LEASE_MS = "10000"  # the process that measures shares the machine: a lease must not end for that
MEBIBYTE = 1 << 20
CODECS = {"gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


class Stall(NamedTuple):
    longest_ms: float
    took_ms: float
    sent_bytes: int
    outcome: str


def ticking(port: int, pipe: Pipe) -> None:
    """Measures from one message of the pipe to the next one, and answers with the longest wait."""
    with Connection(f"127.0.0.1:{port}") as connection:
        frame = encode_request("api_versions", 0, 1)
        while pipe.recv():
            longest = 0.0
            while not pipe.poll():
                began = time.perf_counter()
                connection.send_bytes(frame)
                connection.receive_frame()
                longest = max(longest, time.perf_counter() - began)
                time.sleep(TICK_S)
            pipe.recv()
            pipe.send(1000 * longest)


class Stage:
    """A broker, a connection to it, and the process that watches."""

    def __init__(self, broker: TidelogBroker) -> None:
        self.broker = broker
        self.connection = Connection(broker.bootstrap)
        self.pipe, theirs = multiprocessing.Pipe()
        self._ticker = multiprocessing.Process(target=ticking, args=(broker.port, theirs), daemon=True)
        self._ticker.start()

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = f"stall-{uuid.uuid4().hex[:8]}"
        made = self.connection.call(
            "create_topics", 5,
            topics=[{
                "name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [],
                "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
            }],
            timeout=30_000, validate_only=False,
        )  # fmt: skip
        assert made.topics[0].error_code.name == "none", made
        return name

    def watch(self, frame: bytes, times: int = 1) -> Stall:
        """`frame` sent `times` times in a row, and all of its answers taken."""
        self.pipe.send(True)
        time.sleep(0.05)
        began = time.perf_counter()
        outcome = "answered"
        try:
            self.connection.send_bytes(frame * times)
            for _ in range(times):
                answer = self.connection.receive_frame()
            outcome = f"answered with {len(answer)} bytes"
        except (ConnectionClosed, OSError) as problem:
            outcome = f"closed: {problem}"
            self.connection.close()
            self.connection = Connection(self.broker.bootstrap)
        took_ms = 1000 * (time.perf_counter() - began)
        time.sleep(0.02)
        self.pipe.send(True)
        return Stall(self.pipe.recv(), took_ms, len(frame) * times, outcome)

    def close(self) -> None:
        self.pipe.send(False)
        self._ticker.join()
        self.connection.close()


def produce_frame(topic: str, batches: list[bytes], acks: int = 1) -> bytes:
    partitions = [{"index": index, "records": records} for index, records in enumerate(batches)]
    return encode_request(
        "produce", 9, 1, transactional_id=None, acks=acks, timeout=30_000,
        topic_data=[{"name": topic, "partition_data": partitions}],
    )  # fmt: skip


def bomb(expanded: int, codec: str = "zstd", **header: Any) -> bytes:
    """One keyed record of zeros, in a batch of a few bytes."""
    body = encode_record(0, Record(bytes(expanded), b"k"))
    return batch([b"x"], attributes=CODECS[codec], body=bytes(compress(CODECS[codec], body)), **header)


def crowd(count: int, codec: str | None = None, key: bytes | None = b"", **header: Any) -> bytes:
    """As many of the smallest records as there can be."""
    body = b"".join(encode_record(index, Record(None, key)) for index in range(count))
    if codec is not None:
        body = bytes(compress(CODECS[codec], body))
    attributes = 0 if codec is None else CODECS[codec]
    return batch([b"x"], attributes=attributes, body=body, count=count, last_offset_delta=count - 1, **header)


def compacted_bomb(stage: Stage) -> Stall:
    topic = stage.topic(cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [bomb(250 * MEBIBYTE)]))


def many_bombs(stage: Stage) -> Stall:
    topic = stage.topic(30, cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [bomb(30 * MEBIBYTE)] * 30))


def many_requests_of_small_bombs(stage: Stage) -> Stall:
    topic = stage.topic(cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [bomb(MEBIBYTE)]), 500)


def gzip_bomb(stage: Stage) -> Stall:
    topic = stage.topic(cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [bomb(200 * MEBIBYTE, "gzip")]))


def other_codec(stage: Stage) -> Stall:
    topic = stage.topic(**{"compression_type": "zstd", "compression_zstd_level": "19"})
    return stage.watch(produce_frame(topic, [batch([bytes(range(256)) * 3600])]))


def crowd_without_keys(stage: Stage) -> Stall:
    topic = stage.topic(cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [crowd(110_000, key=None)]))


def compressed_crowd_without_keys(stage: Stage) -> Stall:
    topic = stage.topic(cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [crowd(1_200_000, "zstd", key=None)]))


def crowd_with_keys(stage: Stage) -> Stall:
    topic = stage.topic(cleanup_policy="compact")
    return stage.watch(produce_frame(topic, [crowd(110_000)]))


def crowd_of_a_plain_topic(stage: Stage) -> Stall:
    return stage.watch(produce_frame(stage.topic(), [crowd(110_000)]))


def untimely_crowd(stage: Stage) -> Stall:
    topic = stage.topic(**{"message_timestamp_before_max_ms": "1000"})
    return stage.watch(produce_frame(topic, [crowd(110_000, base_timestamp=1_000)]))


def schemas_of_a_crowd(stage: Stage) -> Stall:
    topic = stage.topic(**{"confluent_value_schema_validation": "true"})
    records = [Record(struct.pack(">bI", 0, 7)) for _ in range(80_000)]
    return stage.watch(produce_frame(topic, [batch(records)]))


def schemas_of_a_bomb(stage: Stage) -> Stall:
    topic = stage.topic(**{"confluent_value_schema_validation": "true"})
    return stage.watch(produce_frame(topic, [crowd(1_200_000, "zstd", key=None)]))


def many_tiny_batches(stage: Stage) -> Stall:
    topic = stage.topic(1000)
    return stage.watch(produce_frame(topic, [batch([b"x"])] * 1000), 5)


def many_unknown_partitions(stage: Stage) -> Stall:
    partitions = [{"index": index, "records": b"x"} for index in range(200_000)]
    frame = encode_request(
        "produce", 9, 1, transactional_id=None, acks=1, timeout=30_000,
        topic_data=[{"name": "none", "partition_data": partitions}],
    )  # fmt: skip
    return stage.watch(frame)


def offset_by_time_in_a_bomb(stage: Stage) -> Stall:
    topic = stage.topic()
    stage.connection.send_bytes(
        produce_frame(topic, [crowd(1_200_000, "zstd", base_timestamp=1_000, max_timestamp=9_000)])
    )
    stage.connection.receive_frame()
    return stage.watch(
        encode_request(
            "list_offsets", 5, 1, replica_id=-1, isolation_level=0,
            topics=[{"name": topic, "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": 5_000}]}],
        )
    )  # fmt: skip


def metadata_of_many(stage: Stage) -> Stall:
    stage.topic(1000)
    topics = [{"topic_id": uuid.UUID(int=0), "name": f"t{index}"} for index in range(300_000)]
    frame = encode_request(
        "metadata",
        12,
        1,
        topics=topics,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return stage.watch(frame)


def _offsets(count: int, api: str, version: int, **partition: Any) -> bytes:
    key = {"list_offsets": "partition_index", "offset_commit": "partition_index"}.get(api, "partition_index")
    partitions = [{key: index, **partition} for index in range(count)]
    return encode_request(
        api, version, 1, replica_id=-1, isolation_level=0, topics=[{"name": "none", "partitions": partitions}]
    )


def list_offsets_of_many(stage: Stage) -> Stall:
    return stage.watch(_offsets(250_000, "list_offsets", 5, current_leader_epoch=-1, timestamp=-1))


def list_offsets_by_time_of_many(stage: Stage) -> Stall:
    topic = stage.topic(1000)
    stage.connection.send_bytes(produce_frame(topic, [batch([b"x"] * 10, base_timestamp=1_000)] * 1000))
    stage.connection.receive_frame()
    partitions = [
        {"partition_index": index, "current_leader_epoch": -1, "timestamp": 500} for index in range(1000)
    ]
    frame = encode_request(
        "list_offsets",
        5,
        1,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": topic, "partitions": partitions}],
    )
    return stage.watch(frame)


def offset_fetch_of_many(stage: Stage) -> Stall:
    topics = [{"name": "none", "partition_indexes": list(range(900_000))}]
    frame = encode_request(
        "offset_fetch", 8, 1, require_stable=False,
        groups=[{"group_id": "g", "member_id": None, "member_epoch": -1, "topics": topics}],
    )  # fmt: skip
    return stage.watch(frame)


def delete_records_of_many(stage: Stage) -> Stall:
    partitions = [{"partition_index": index, "offset": -1} for index in range(300_000)]
    frame = encode_request(
        "delete_records", 2, 1, timeout=1_000, topics=[{"name": "none", "partitions": partitions}]
    )
    return stage.watch(frame)


def create_many_topics(stage: Stage) -> Stall:
    topics = [
        {"name": f"c{index}", "num_partitions": 1, "replication_factor": 9, "assignments": [], "configs": []}
        for index in range(100_000)
    ]
    frame = encode_request("create_topics", 5, 1, topics=topics, timeout=1_000, validate_only=True)
    return stage.watch(frame)


def regular_expression(stage: Stage) -> Stall:
    for name in ("a" * 200, "a" * 249):
        stage.connection.call(
            "create_topics", 5,
            topics=[{"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
            timeout=30_000, validate_only=False,
        )  # fmt: skip
    frame = encode_request(
        "consumer_group_heartbeat", 1, 1, group_id=uuid.uuid4().hex, member_id=uuid.uuid4().hex, member_epoch=0,
        instance_id=None, rack_id=None, rebalance_timeout=60_000, subscribed_topic_names=None,
        subscribed_topic_regex="(a|a)*b", server_assignor=None, topic_partitions=[],
    )  # fmt: skip
    return stage.watch(frame)


def describe_many_groups(stage: Stage) -> Stall:
    return stage.watch(
        encode_request(
            "describe_groups",
            5,
            1,
            groups=[f"g{i}" for i in range(400_000)],
            include_authorized_operations=False,
        )
    )


def fetch_of_many(stage: Stage) -> Stall:
    partitions = [
        {
            "partition": index, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1,
            "log_start_offset": -1, "partition_max_bytes": 1,
        }
        for index in range(110_000)
    ]  # fmt: skip
    frame = encode_request(
        "fetch", 12, 1, cluster_id=None, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1000, isolation_level=0,
        session_id=0, session_epoch=0, topics=[{"topic": "none", "partitions": partitions}],
        forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return stage.watch(frame)


CASES: list[Callable[[Stage], Stall]] = [
    compacted_bomb,
    many_bombs,
    many_requests_of_small_bombs,
    gzip_bomb,
    other_codec,
    crowd_of_a_plain_topic,
    crowd_with_keys,
    crowd_without_keys,
    compressed_crowd_without_keys,
    untimely_crowd,
    schemas_of_a_crowd,
    schemas_of_a_bomb,
    many_tiny_batches,
    many_unknown_partitions,
    offset_by_time_in_a_bomb,
    metadata_of_many,
    list_offsets_of_many,
    list_offsets_by_time_of_many,
    offset_fetch_of_many,
    delete_records_of_many,
    create_many_topics,
    describe_many_groups,
    fetch_of_many,
    regular_expression,
]


def main(wanted: list[str]) -> None:
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as home:
            settings = {"tidelog.broker.lease.ms": LEASE_MS, "auto.create.topics.enable": "false"}
            broker = TidelogBroker(Path(home), settings)
            broker.port = free_port()
            broker.start()
            try:
                stage = Stage(broker)
                longest_ms, took_ms, sent, outcome = case(stage)
                name = case.__name__.replace("_", " ")
                print(
                    f"{name:34} {sent:>10,} bytes sent {longest_ms:>8.1f} ms longest stall "
                    f"{took_ms:>8.1f} ms in all  {outcome}",
                    flush=True,
                )
                stage.close()
            finally:
                broker.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
