"""Remote storage under one broker: what is copied, what stays local, and that readers notice nothing of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from tests.conformance.process import wait_until
from tests.faults.tiered import (
    CREDENTIALS,
    KEEPS_ONE_SEGMENT,
    SECONDS_MAX,
    FolderStore,
    create,
    fill,
    local_bases,
    offset_of,
    read,
    s3_server,
    settings,
)
from tidelog.testing import broker, child_broker

TOPIC = "readings"
COUNT = 6000  # about six segments


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    (tmp_path / "store").mkdir()
    return FolderStore(tmp_path / "store")


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        yield f"file://{tmp_path}/store"
        return
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as address:
        yield f"s3://archive/tidelog?endpoint={address}"


def wait_until_little_is_local(data: Path, topic: str = TOPIC) -> None:
    wait_until(lambda: 0 < len(local_bases(data, topic)) <= 2, SECONDS_MAX, "old segments leave the disk")


def test_old_records_are_read_from_the_store(url: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until_little_is_local(data)
        assert local_bases(data, TOPIC)[0] > COUNT // 2
        assert read(one.bootstrap_servers, TOPIC, 0, COUNT) == list(range(COUNT))
        assert read(one.bootstrap_servers, TOPIC, 1234, COUNT) == list(range(1234, COUNT))
        one.restart()
        assert read(one.bootstrap_servers, TOPIC, 0, COUNT) == list(range(COUNT))
        assert offset_of(one.bootstrap_servers, TOPIC, -2) == 0
        assert offset_of(one.bootstrap_servers, TOPIC, -1) == COUNT


def test_offsets_are_found_by_time_in_the_store(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, 1500)
        time.sleep(0.05)
        between = int(time.time() * 1000)
        fill(one.bootstrap_servers, TOPIC, 1500, COUNT - 1500)
        wait_until_little_is_local(data)
        assert local_bases(data, TOPIC)[0] > 1500
        assert offset_of(one.bootstrap_servers, TOPIC, between) == 1500
        assert offset_of(one.bootstrap_servers, TOPIC, 1) == 0
        assert offset_of(one.bootstrap_servers, TOPIC, int(time.time() * 1000) + 60_000) == -1


def test_retention_deletes_from_the_store(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, {**KEEPS_ONE_SEGMENT, "retention.bytes": str(3 << 20)})
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until_little_is_local(data)

        def bounded() -> bool:
            start = offset_of(one.bootstrap_servers, TOPIC, -2)
            return start > 1000 and store.manifest(TOPIC)["segments"][0]["start"] == start

        wait_until(bounded, SECONDS_MAX, "old segments leave the store")
        wait_until(lambda: not store.strangers(TOPIC), SECONDS_MAX, "their objects are deleted")
        start = offset_of(one.bootstrap_servers, TOPIC, -2)
        assert start < COUNT - 2000, "as much as is to be kept is kept"
        assert read(one.bootstrap_servers, TOPIC, start, COUNT) == list(range(start, COUNT))


def test_deleted_records_leave_the_store(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until_little_is_local(data)
        admin = AdminClient({"bootstrap.servers": one.bootstrap_servers})
        for done in admin.delete_records([TopicPartition(TOPIC, 0, 2500)]).values():
            assert done.result(30).low_watermark == 2500
        wait_until(lambda: store.manifest(TOPIC)["log_start"] == 2500, SECONDS_MAX, "the manifest says so")
        assert store.manifest(TOPIC)["segments"][0]["end"] > 2500
        assert store.manifest(TOPIC)["segments"][0]["start"] > 0
        one.restart()
        assert offset_of(one.bootstrap_servers, TOPIC, -2) == 2500
        assert read(one.bootstrap_servers, TOPIC, 2500, COUNT) == list(range(2500, COUNT))


def test_a_deleted_topic_leaves_nothing(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, 3000)
        store.wait_until_copied(TOPIC, data)
        admin = AdminClient({"bootstrap.servers": one.bootstrap_servers})
        admin.delete_topics([TOPIC])[TOPIC].result(30)
        wait_until(lambda: not store.objects(TOPIC), SECONDS_MAX, "the objects are deleted")


def alter(bootstrap: str, **config: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_switching_remote_storage_off_deletes_and_starts_locally(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until_little_is_local(data)
        with pytest.raises(Exception, match="disable remote storage without deleting"):
            alter(one.bootstrap_servers, remote_storage_enable="false")
        alter(one.bootstrap_servers, remote_log_delete_on_disable="true", remote_storage_enable="false")
        wait_until(lambda: not store.objects(TOPIC), SECONDS_MAX, "the objects are deleted")
        start = offset_of(one.bootstrap_servers, TOPIC, -2)
        assert start == local_bases(data, TOPIC)[0] > 0
        assert read(one.bootstrap_servers, TOPIC, start, COUNT) == list(range(start, COUNT))


def test_a_killed_broker_goes_on_where_it_stopped(store: FolderStore, tmp_path: Path) -> None:
    slowly = {**settings(store.url), "remote.log.manager.copy.max.bytes.per.second": str(1 << 20)}
    with child_broker(slowly, folder=tmp_path) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        for copied in (1, 1500, 2500):
            wait_until(lambda: store.copied_to(TOPIC) > copied, SECONDS_MAX, f"copies up to {copied}")  # noqa: B023
            one.kill()
            one.start()
        one.kill()
        orphan = next(path for path in store.objects(TOPIC) if path.suffix == ".log")
        stem = f"{COUNT:020d}-{COUNT + 9:020d}-0000000000-00000000000000aa"
        shutil.copy(orphan, orphan.with_name(f"{stem}.log"))
        one.start()
        data = one.folder
        store.wait_until_copied(TOPIC, data)
        wait_until_little_is_local(Path(data))
        wait_until(lambda: not store.strangers(TOPIC), SECONDS_MAX, "what no manifest names is removed")
        assert read(one.bootstrap_servers, TOPIC, 0, COUNT) == list(range(COUNT))


def test_a_store_that_is_away_delays_only_who_reads_old_records(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until_little_is_local(data)
        local = local_bases(data, TOPIC)[0]
        one.stop()
        away = store.path.rename(tmp_path / "away")
        one.start()
        assert read(one.bootstrap_servers, TOPIC, 0, COUNT, seconds=3) == []
        assert read(one.bootstrap_servers, TOPIC, local, COUNT) == list(range(local, COUNT))
        fill(one.bootstrap_servers, TOPIC, COUNT, 3000)
        assert local_bases(data, TOPIC)[0] == local, "nothing leaves the disk that is not in the store"
        shutil.rmtree(store.path, ignore_errors=True)
        away.rename(store.path)
        assert read(one.bootstrap_servers, TOPIC, 0, COUNT + 3000) == list(range(COUNT + 3000))
        store.wait_until_copied(TOPIC, data)


def test_bytes_that_rotted_in_the_store_are_no_records(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as one:
        create(one.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT)
        fill(one.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until_little_is_local(data)
        first = next(path for path in store.objects(TOPIC) if path.suffix == ".log")
        rotten = bytearray(first.read_bytes())
        rotten[len(rotten) // 2] ^= 1
        first.write_bytes(rotten)
        one.restart()
        with pytest.raises(AssertionError):
            read(one.bootstrap_servers, TOPIC, 0, COUNT, seconds=5, **{"check.crcs": "false"})
        behind = store.manifest(TOPIC)["segments"][1]["start"]
        assert read(one.bootstrap_servers, TOPIC, behind, COUNT) == list(range(behind, COUNT))
