"""What metrics say of remote storage."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conformance.process import wait_until
from tests.faults.conftest import BrokerFactory
from tests.faults.monitored import of, scrape
from tests.faults.tiered import (
    KEEPS_ONE_SEGMENT,
    SECONDS_MAX,
    SEGMENT_BYTES,
    FolderStore,
    create,
    fill,
    local_bases,
    read,
    settings,
)

TOPIC = "readings"


def test_copies_reads_and_deletions_are_counted(tmp_path: Path, new_broker: BrokerFactory) -> None:
    store = FolderStore(tmp_path / "store")
    broker = new_broker(settings(store.url))
    broker.start()

    def value(name: str, **labels: str) -> float:
        return of(scrape(broker.http), f"mq_remote_{name}", **labels)

    create(broker.bootstrap, TOPIC, {**KEEPS_ONE_SEGMENT, "retention.bytes": str(4 << 20)})
    fill(broker.bootstrap, TOPIC, 0, 3000)
    wait_until(
        lambda: 0 < len(local_bases(broker.data, TOPIC)) <= 2, SECONDS_MAX, "old segments leave the disk"
    )
    in_store = sum(path.stat().st_size for path in store.objects(TOPIC) if path.suffix == ".log")
    assert value("copied_bytes_total") == in_store
    assert value("partition_size_bytes", topic=TOPIC, partition="0") == in_store
    assert value("copied_segments_total") >= 2
    assert value("read_requests_total") == value("cache_bytes") == value("copy_errors_total") == 0
    assert read(broker.bootstrap, TOPIC, 0, 3000) == list(range(3000))
    assert value("read_bytes_total") >= value("cache_bytes") > SEGMENT_BYTES // 2
    assert value("read_requests_total") < 10
    hits = value("cache_hits_total")
    assert hits > 0
    assert read(broker.bootstrap, TOPIC, 0, 3000) == list(range(3000))
    assert value("cache_hits_total") > hits
    assert value("reads_waiting") == value("read_errors_total") == value("delete_errors_total") == 0
    fill(broker.bootstrap, TOPIC, 3000, 3000)
    wait_until(lambda: value("deleted_segments_total") > 0, SECONDS_MAX, "old segments leave the store")
    shutil.rmtree(store.path)
    fill(broker.bootstrap, TOPIC, 6000, 1500)
    wait_until(lambda: value("copy_errors_total") > 0, SECONDS_MAX, "copies fail")
