"""What is restored equals what was there, for random histories: transactions, deletions, compaction, many backups."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from tests.faults.backed_up import back_up, cluster_at, no_progress, restore
from tests.faults.tiered import create
from tidelog._speed.log.batch import walk
from tidelog.backup.cut import take_whole_cut
from tidelog.backup.repository import BackupRepository
from tidelog.backup.verifying import verify
from tidelog.client.consumer.range_reader import RangeReader
from tidelog.record.reader import read_batches
from tidelog.testing import broker
from tidelog.types import TopicPartition

PLAIN, COMPACTED = TopicPartition("plain", 0), TopicPartition("compacted", 0)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "0",
}
STEPS, BACKUPS = 40, 4

History = dict[TopicPartition, tuple[int, int, list[bytes]]]


class RandomClient:
    def __init__(self, bootstrap: str, random: Random) -> None:
        self._random = random
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "random", "linger.ms": 1}
        )
        self._producer.init_transactions()
        self._plain = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": "true",
                "compression.type": random.choice(["none", "zstd", "lz4"]),
            }
        )

    def step(self, end: int) -> None:
        random = self._random
        step = random.choice(["produce", "produce", "commit", "abort", "delete"])
        if step == "produce":
            self._fill(self._plain, random.randint(1, 60))
            assert self._plain.flush(30) == 0
        elif step == "delete":
            where = confluent_kafka.TopicPartition(PLAIN.topic, 0, random.randint(0, end // 2))
            self._admin.delete_records([where])[where].result(30)
        else:
            self._producer.begin_transaction()
            self._fill(self._producer, random.randint(1, 10))
            getattr(self._producer, f"{step}_transaction")()

    def _fill(self, producer: confluent_kafka.Producer, count: int) -> None:
        for _ in range(count):
            value = os.urandom(self._random.randint(0, 3000))
            producer.produce(PLAIN.topic, value, str(self._random.randint(0, 9)), partition=0)
            deleted = self._random.random() < 0.1
            producer.produce(
                COMPACTED.topic, None if deleted else value, str(self._random.randint(0, 9)), partition=0
            )


async def history(bootstrap: str) -> History:
    """Start, end and the batches of each partition, byte by byte, as a broker serves them."""
    found: History = {}
    async with cluster_at(bootstrap) as cluster:
        cut = await take_whole_cut(cluster, 30_000)
        reader = RangeReader(cluster, read_committed=False, fetch_bytes=1 << 20, timeout_ms=30_000)
        for name in (PLAIN, COMPACTED):
            ends = cut.ranges[name]
            batches: list[bytes] = []
            async for piece in reader.pieces(name, ends.start, ends.end):
                data = bytes(piece.data)
                batches += [data[each.position : each.position + each.size] for each in walk(data)]
            found[name] = ends.start, ends.end, batches
    return found


def latest_by_key(batches: list[bytes]) -> dict[bytes | None, bytes | None]:
    latest: dict[bytes | None, bytes | None] = {}
    for batch in read_batches(b"".join(batches)):
        if not batch.header.control:
            latest |= {record.key: record.value for record in batch.records()}
    return {key: value for key, value in latest.items() if value is not None}


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_backup_of_a_random_history_is_what_was_there(seed: int, tmp_path: Path) -> None:
    random, url = Random(seed), f"file://{tmp_path}/store"
    taken: dict[str, History] = {}
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, PLAIN.topic, {"internal.segment.bytes": "65536", "retention.ms": "-1"})
        create(
            at,
            COMPACTED.topic,
            {
                "internal.segment.bytes": "65536",
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": "0",
            },
        )
        client, end = RandomClient(at, random), 0
        for number in range(1, BACKUPS + 1):
            for _ in range(STEPS // BACKUPS):
                client.step(end)
            await back_up(at, url, f"backup-{number}")
            taken[f"backup-{number}"] = await history(at)
            end = taken[f"backup-{number}"][PLAIN][1]
    repository = await BackupRepository.open(url, {})
    for name, there in taken.items():
        assert await verify(repository, await repository.manifest(name), no_progress) == []
        await restore(url, name, tmp_path / name)
        with broker({**SETTINGS, "log.cleaner.enable": "false"}, folder=tmp_path / name) as fresh:
            restored = await history(fresh.bootstrap_servers)
        assert restored[PLAIN] == there[PLAIN], f"{name}, seed {seed}"
        # Compaction may have gone on between the cut and the look; what is there to read is the same.
        assert restored[COMPACTED][1] == there[COMPACTED][1]
        assert latest_by_key(restored[COMPACTED][2]) == latest_by_key(there[COMPACTED][2]), name
