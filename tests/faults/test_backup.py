"""Backups of a running broker: what is restored equals what was there, whatever dies or fails on the way."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.faults.backed_up import (
    TIMEOUT_MS,
    ProcessKilled,
    back_up,
    cluster_at,
    fail_requests,
    log_bytes,
    no_progress,
    restore,
)
from tests.faults.tiered import CREDENTIALS, create, fill, read, s3_server
from tidelog.backup.creating import BackupCreation
from tidelog.backup.manifest import BackupManifest, CorruptBackup
from tidelog.backup.point import RestorePoint, parse_point
from tidelog.backup.repository import BackupRepository, StoreFailed
from tidelog.backup.restoring import Selection, plan_restore
from tidelog.backup.verifying import verify
from tidelog.cli import cli
from tidelog.errors import InvalidConfig
from tidelog.storage.encryption.key_files import KeyFiles
from tidelog.storage.tiers.object_store import StoreProblem
from tidelog.testing import broker
from tidelog.types import TopicPartition

TOPIC = "orders"
COUNT = 3000
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture(params=["folder", "s3"])
def each_url(request: pytest.FixtureRequest, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        yield url
        return
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as address:
        yield f"s3://archive/backups?endpoint={address}"


def transact(bootstrap: str, transactional_id: str, keys: list[str], end: str) -> confluent_kafka.Producer:
    """`end`: commit_transaction, abort_transaction, or flush, which leaves the transaction open."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for key in keys:
        producer.produce(TOPIC, key=key, value="in a transaction", partition=0)
    getattr(producer, end)()
    return producer


def commit_offset(bootstrap: str, group: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def committed_offset(bootstrap: str, group: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return int(consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], timeout=30)[0].offset)
    finally:
        consumer.close()


def committed_keys(bootstrap: str) -> list[str]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "committed-keys",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    keys: list[str] = []
    try:
        while (message := consumer.poll(30)) is not None and not message.error():
            key = message.key()
            assert isinstance(key, bytes)
            keys.append(key.decode())
    finally:
        consumer.close()
    return keys


async def test_a_restored_cluster_stands_where_the_old_one_stood(each_url: str, tmp_path: Path) -> None:
    data, new = tmp_path / "data", tmp_path / "new"
    with broker(SETTINGS, folder=data) as source:
        at = source.bootstrap_servers
        create(at, TOPIC, {"segment.bytes": str(1 << 20), "retention.ms": "-1"})
        fill(at, TOPIC, 0, COUNT)
        transact(at, "committed", ["committed"], "commit_transaction")
        transact(at, "aborted", ["aborted"], "abort_transaction")
        still_open = transact(at, "open", ["open"], "flush")
        commit_offset(at, "billing", 1234)
        user = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret"
        )
        admin = AdminClient({"bootstrap.servers": at})
        admin.alter_user_scram_credentials([user])["alice"].result(30)
        created = await back_up(at, each_url, "first")
        ends = {partition.name: partition.end for partition in created.manifest.partitions}
        assert not [
            partition for partition in created.manifest.partitions if partition.copied_end > partition.end
        ]
        # What follows is no part of the backup.
        still_open.commit_transaction()
        fill(at, TOPIC, COUNT, 10)
        commit_offset(at, "billing", 2000)
        restored = await restore(each_url, "first", new)
    assert {partition.name: partition.end for partition in restored} == ends
    in_backup = log_bytes(new, f"{TOPIC}-0")
    assert in_backup and log_bytes(data, f"{TOPIC}-0").startswith(in_backup)
    with broker(SETTINGS, folder=new) as fresh:
        at = fresh.bootstrap_servers
        assert read(at, TOPIC, 0, COUNT) == list(range(COUNT))
        assert committed_offset(at, "billing") == 1234
        admin = AdminClient({"bootstrap.servers": at})
        assert admin.describe_user_scram_credentials(["alice"])["alice"].result(30).scram_credential_infos
        # The open transaction ends as that of a producer that has died does: the next one with its id aborts it.
        confluent_kafka.Producer({"bootstrap.servers": at, "transactional.id": "open"}).init_transactions()
        keys = committed_keys(at)
        assert keys[-1] == "committed" and "aborted" not in keys and "open" not in keys
        fill(at, TOPIC, COUNT, 10)
        assert admin.describe_cluster().result(30).cluster_id != created.manifest.cluster_id


async def test_the_next_backup_copies_what_is_new(url: str, tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, TOPIC, {})
        fill(at, TOPIC, 0, 6000)
        first = await back_up(at, url, "first")
        again = await back_up(at, url, "again")
        assert first.copied_bytes > 6_000_000 and again.copied_bytes == 0
        fill(at, TOPIC, 6000, 100)
        second = await back_up(at, url, "second")
        assert 0 < second.copied_bytes < 200_000
        repository = await BackupRepository.open(url, {})
        assert await verify(repository, second.manifest, no_progress) == []
        # A backup that is deleted leaves those that share its objects as they are.
        await repository.forget(["first", "again"])
        await repository.remove_unused()
        assert await repository.names() == ["second"]
        assert await verify(repository, second.manifest, no_progress) == []
        await repository.forget(["second"])
        assert await repository.remove_unused()
        assert not [path for path in (tmp_path / "store/objects").rglob("*") if path.is_file()]


async def test_a_backup_killed_at_any_request_goes_on(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, TOPIC, {})
        fill(at, TOPIC, 0, COUNT)
        number = 0
        while True:
            with monkeypatch.context() as patch:
                fail_requests(patch, number, ProcessKilled())
                try:
                    await back_up(at, url, f"backup-{number}")
                    break
                except (ProcessKilled, BaseExceptionGroup):
                    pass
            repository = await BackupRepository.open(url, {}, create=True)
            whole = f"backup-{number}" in await repository.names()
            if not whole:
                created = await back_up(at, url, f"backup-{number}")
                assert await verify(repository, created.manifest, no_progress) == []
            else:
                await repository.forget_journal(f"backup-{number}")
            await repository.forget([f"backup-{number}"])
            assert await repository.remove_unused() is not None, "no journal is left"
            number += 1
        assert number > 5
        await restore(url, f"backup-{number}", tmp_path / "new")
    assert log_bytes(tmp_path / "new", f"{TOPIC}-0") == log_bytes(tmp_path / "data", f"{TOPIC}-0")


async def test_a_restore_killed_at_any_request_leaves_no_half_directory(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tmp_path / "new"
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, {})
        fill(source.bootstrap_servers, TOPIC, 0, COUNT)
        await back_up(source.bootstrap_servers, url, "first")
    for number in range(100):
        with monkeypatch.context() as patch:
            fail_requests(patch, number, ProcessKilled())
            try:
                await restore(url, "first", new)
                break
            except (ProcessKilled, BaseExceptionGroup):
                assert not new.exists()
    assert number > 1
    with pytest.raises(InvalidConfig, match="not an empty folder"):
        await restore(url, "first", new)
    with broker(SETTINGS, folder=new) as fresh:
        assert read(fresh.bootstrap_servers, TOPIC, 0, COUNT) == list(range(COUNT))


async def test_a_store_that_fails_for_a_while_is_survived_and_one_that_stays_away_is_told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, TOPIC, {})
        fill(at, TOPIC, 0, COUNT)
        with monkeypatch.context() as patch:
            stores = fail_requests(patch, 3, StoreProblem("503 slow down"), count=4)
            await back_up(at, url, "throttled")
            assert stores[0].requests > 7
        with monkeypatch.context() as patch:
            fail_requests(patch, 3, StoreProblem("403 forbidden"))
            with pytest.raises(StoreFailed, match="403 forbidden"):
                await back_up(at, url, "forbidden")


async def test_verify_finds_what_is_damaged_or_missing(url: str, tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, {})
        fill(source.bootstrap_servers, TOPIC, 0, COUNT)
        created = await back_up(source.bootstrap_servers, url, "first")
    repository = await BackupRepository.open(url, {})
    (path,) = (
        path
        for path in (tmp_path / "store/objects").rglob("*")
        if path.is_file() and path.stat().st_size > 1_000_000
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    (problem,) = await verify(repository, created.manifest, no_progress)
    assert "checksum differs" in problem
    with pytest.raises(ExceptionGroup) as group:
        await restore(url, "first", tmp_path / "new")
    assert group.group_contains(CorruptBackup, match="checksum differs")
    path.unlink()
    (problem,) = await verify(repository, created.manifest, no_progress)
    assert "is missing" in problem


async def test_an_encrypted_backup_shows_nothing_without_its_key(url: str, tmp_path: Path) -> None:
    keys = KeyFiles(str(tmp_path / "keys"))
    keys.create("backups")
    repository = await BackupRepository.open(url, {"file": keys}, key="file:backups", create=True)
    partition = (await _backed_up_with(repository, tmp_path)).partitions[-1]
    stored = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert not [data for data in stored if b"a secret value" in data or TOPIC.encode() in data]
    again = await BackupRepository.open(url, {"file": keys})
    assert b"a secret value" in await again.get_batches(partition, partition.objects[0])
    with pytest.raises(InvalidConfig, match="--keys-dir"):
        await BackupRepository.open(url, {})
    shutil.rmtree(tmp_path / "keys")
    others = KeyFiles(str(tmp_path / "keys"))
    others.create("backups")
    with pytest.raises(OSError, match="does not open"):
        await BackupRepository.open(url, {"file": others})


async def _backed_up_with(repository: BackupRepository, tmp_path: Path) -> BackupManifest:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, {})
        producer = confluent_kafka.Producer({"bootstrap.servers": source.bootstrap_servers})
        producer.produce(TOPIC, value="a secret value")
        assert producer.flush(30) == 0
        async with cluster_at(source.bootstrap_servers) as cluster:
            created = await BackupCreation(cluster, repository, TIMEOUT_MS, no_progress).run("first")
    return created.manifest


async def test_a_point_in_the_past(url: str, tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, TOPIC, {})
        fill(at, TOPIC, 0, 1000)
        commit_offset(at, "billing", 900)
        time_ms = await _later_ms()
        fill(at, TOPIC, 1000, 1000)
        commit_offset(at, "billing", 1900)
        await back_up(at, url, "first")
    repository = await BackupRepository.open(url, {})
    manifest = await repository.manifest("first")
    point = RestorePoint(at_ms=time_ms)
    planned = await plan_restore(repository, manifest, point, Selection(), no_progress)
    restored = await restore(url, "first", tmp_path / "new", point)
    assert planned == restored
    assert {each.name: each.end for each in restored}[TopicPartition(TOPIC, 0)] == 1000
    with broker(SETTINGS, folder=tmp_path / "new") as fresh:
        assert read(fresh.bootstrap_servers, TOPIC, 0, 1000) == list(range(1000))
        assert committed_offset(fresh.bootstrap_servers, "billing") == 900
        fill(fresh.bootstrap_servers, TOPIC, 1000, 10)
    middle = parse_point(f"{TOPIC}-0:500", time_ms)
    only = Selection((TOPIC,), "orders-before")
    (part,) = await restore(url, "first", tmp_path / "middle", middle, only)
    assert 0 < part.end <= 500 and part.left_out == 2000 - part.end
    with broker(SETTINGS, folder=tmp_path / "middle") as fresh:
        assert read(fresh.bootstrap_servers, "orders-before", 0, part.end) == list(range(part.end))


async def test_no_transaction_stays_open_at_a_point_in_the_past(url: str, tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, TOPIC, {})
        transact(at, "first", ["a", "b"], "commit_transaction")
        still_open = transact(at, "second", ["c", "d"], "flush")
        point = RestorePoint(await _later_ms())
        still_open.commit_transaction()
        transact(at, "third", ["e"], "commit_transaction")
        assert committed_keys(at) == ["a", "b", "c", "d", "e"]
        await back_up(at, url, "first")
    await restore(url, "first", tmp_path / "topic", point, Selection((TOPIC,)))
    with broker(SETTINGS, folder=tmp_path / "topic") as fresh:
        assert committed_keys(fresh.bootstrap_servers) == ["a", "b"]
        transact(fresh.bootstrap_servers, "second", ["f"], "commit_transaction")
        assert committed_keys(fresh.bootstrap_servers) == ["a", "b", "f"]
    await restore(url, "first", tmp_path / "whole", point)
    with broker(SETTINGS, folder=tmp_path / "whole") as fresh:
        transact(fresh.bootstrap_servers, "second", ["f"], "commit_transaction")
        assert committed_keys(fresh.bootstrap_servers) == ["a", "b", "f"]


async def _later_ms() -> int:
    """A time after all records so far, and before all later ones."""
    await asyncio.sleep(0.05)
    now_ms = time.time_ns() // 1_000_000
    await asyncio.sleep(0.05)
    return now_ms


def test_the_command_line(url: str, tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, ["backup", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    store = ["--store", str(tmp_path / "store")]
    assert "There are no backups" in run("list", *store, code=1)
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = ["--bootstrap", source.bootstrap_servers]
        create(source.bootstrap_servers, TOPIC, {})
        fill(source.bootstrap_servers, TOPIC, 0, 100)
        for name in ("a", "b", "c"):
            made = json.loads(run("create", name, *store, *at, "--keep", "2", "--json"))
        assert made["removed"] == ["a"] and made["copied_bytes"] == 0
        assert "already exists" in run("create", "b", *store, *at, code=1)
    assert [each["backup"] for each in json.loads(run("list", *store, "--json"))] == ["b", "c"]
    assert "all as they were written" in run("verify", *store)
    assert f"{TOPIC}" in run("restore", *store, "--dry-run")
    assert "--data DIR" in run("restore", *store, code=2)
    assert "has no topic 'nothing'" in run(
        "restore", *store, "--topic", "nothing", "--data", str(tmp_path / "x"), code=1
    )
    assert "tidelog serve" in run("restore", "b", *store, "--data", str(tmp_path / "new"))
    assert "deleted b, c" in run("delete", "b", "c", *store)


def test_a_schedule_goes_on_after_a_failure(tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, {})
        fill(source.bootstrap_servers, TOPIC, 0, 100)
        options = ["--store", str(tmp_path / "store"), "--every", "1s", "--json", "--keep", "1"]
        at = ["--bootstrap", source.bootstrap_servers]
        result = CliRunner().invoke(cli, ["backup", "schedule", *options, *at, "--count", "2"])
        lines = [json.loads(line) for line in result.output.splitlines()]
        assert result.exit_code == 0 and len(lines) == 2
        assert lines[1]["removed"] == [lines[0]["backup"]]
    result = CliRunner().invoke(cli, ["backup", "schedule", *options, *at, "--count", "1", "--timeout", "1"])
    assert result.exit_code == 0 and "cannot reach" in json.loads(result.output)["failed"]
