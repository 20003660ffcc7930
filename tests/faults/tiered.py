"""A broker with remote storage: settings that keep little on the disk, stores to point it at, and what is in both."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from moto.server import ThreadedMotoServer

from tests.conformance.process import wait_until

SECONDS_MAX = 60
SEGMENT_BYTES = 1 << 20
KEEPS_ONE_SEGMENT = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(SEGMENT_BYTES),
}
REMOTE_METRICS = {
    "mq_remote_cache_bytes",
    "mq_remote_cache_hits_total",
    "mq_remote_copied_bytes_total",
    "mq_remote_copied_segments_total",
    "mq_remote_copy_errors_total",
    "mq_remote_delete_errors_total",
    "mq_remote_deleted_segments_total",
    "mq_remote_partition_size_bytes",
    "mq_remote_read_bytes_total",
    "mq_remote_read_errors_total",
    "mq_remote_read_requests_total",
    "mq_remote_reads_waiting",
}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "us-east-1"}


def settings(url: str) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "tidelog.remote.storage.url": url,
        "remote.log.manager.task.interval.ms": "100",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "0",
    }


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of an S3 server with a bucket called archive."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        client = boto3.client(
            "s3",
            endpoint_url=address,
            region_name=CREDENTIALS["AWS_REGION"],
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket="archive")
        yield address
    finally:
        server.stop()


def create(
    bootstrap: str, topic: str, config: Mapping[str, str], partitions: int = 1, replicas: int = 1
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, replicas, config=dict(config))])[topic].result(30)


def fill(bootstrap: str, topic: str, start: int, count: int, size: int = 1000, **settings: str) -> None:
    """Records whose keys are their offsets, with values that do not compress."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": "true", "batch.size": 30_000}
        | settings
    )
    refused: list[Any] = []
    for number in range(start, start + count):
        producer.produce(
            topic, key=str(number), value=os.urandom(size // 2).hex(), partition=0, on_delivery=_tell(refused)
        )
        if number % 500 == 499:
            producer.flush()
    assert producer.flush(60) == 0
    assert not refused, refused[0]


def _tell(refused: list[Any]) -> Any:
    return lambda problem, message: problem is None or refused.append(problem)


def read(
    bootstrap: str, topic: str, start: int, end: int, seconds: float = SECONDS_MAX, **settings: str
) -> list[int]:
    """The keys of the records from offset `start` to before `end`, each where its offset says."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "error",
            "enable.auto.commit": "false",
        }
        | settings
    )
    keys: list[int] = []
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        while start + len(keys) < end and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=1):
                assert message.error() is None, message.error()
                assert message.offset() == start + len(keys), "no record is passed over"
                key = message.key()
                assert isinstance(key, bytes)
                keys.append(int(key))
    finally:
        consumer.close()
    return keys


def offset_of(bootstrap: str, topic: str, timestamp: int) -> int:
    """What ListOffsets answers: -1 latest, -2 earliest, -3 newest, or a time."""
    specs = {-1: OffsetSpec.latest, -2: OffsetSpec.earliest, -3: OffsetSpec.max_timestamp}
    spec = specs[timestamp]() if timestamp < 0 else OffsetSpec.for_timestamp(timestamp)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answers = admin.list_offsets({confluent_kafka.TopicPartition(topic, 0): spec})
    return int(next(iter(answers.values())).result(30).offset)


def local_bases(data: Path | str, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (Path(data) / f"{topic}-0").glob("*.log"))


class FolderStore:
    """What lies in a store that is a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"file://{path}"

    def objects(self, topic: str) -> list[Path]:
        return sorted(path for path in self.path.glob(f"*/topics/{topic}/**/*") if path.is_file())

    def manifest(self, topic: str) -> dict[str, Any]:
        """The newest one; empty as long as there is none."""
        for path in sorted(self.path.glob(f"*/topics/{topic}/*/0/manifests/*.json"), reverse=True):
            try:
                fields: dict[str, Any] = json.loads(path.read_text())
            except FileNotFoundError:
                continue  # replaced meanwhile
            return fields
        return {}

    def copied_to(self, topic: str) -> int:
        segments = self.manifest(topic).get("segments", [])
        return int(segments[-1]["end"]) if segments else 0

    def strangers(self, topic: str) -> list[Path]:
        """Objects of segments that the newest manifest does not name."""
        known = {segment["name"] for segment in self.manifest(topic)["segments"]}
        return [
            path for path in self.objects(topic) if path.parent.name == "segments" and path.stem not in known
        ]

    def wait_until_copied(self, topic: str, data: Path | str) -> None:
        """All but the segment that is written to."""

        def done() -> bool:
            return self.copied_to(topic) >= local_bases(data, topic)[-1] > 0

        wait_until(done, SECONDS_MAX, "all sealed segments are copied")
