"""Encryption at rest on a real broker: nothing plain on its disk, keys that come, go, rotate and are deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conformance.batches import batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, create_topic, fetch, produce, values
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.test_kill import kill_again_and_again
from tests.faults.transit_server import TOKEN, TransitServer
from tidelog.storage.encryption.file_header import is_encrypted
from tidelog.storage.encryption.key_files import KeyFiles

MARK = b"what no disk may show "
CORRUPT, STORAGE_ERROR = 2, 56
REFRESH = {"encryption.refresh.ms": "100"}


@pytest.fixture
def keys(tmp_path: Path) -> KeyFiles:
    files = KeyFiles(str(tmp_path / "keys"))
    for name in ("a", "b"):
        files.create(name)
    return files


def with_keys(tmp_path: Path, default: str = "none", **others: str) -> dict[str, str]:
    return {
        **SMALL,
        **REFRESH,
        "encryption.file.keys.dir": str(tmp_path / "keys"),
        "encryption.key": default,
        **others,
    }


def marked(number: int) -> bytes:
    return batch([MARK + b"%d " % number + bytes(200)])


def logs(broker: FaultyBroker, partition: str) -> list[Path]:
    return sorted((broker.data / partition).glob("*.log"))


def files_with(folder: Path, text: bytes) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            try:
                found += [path] * (text in path.read_bytes())
            except FileNotFoundError:
                continue
    return found


def tidelog(*arguments: str, ok: bool = True) -> str:
    command = [str(Path(sys.executable).parent / "tidelog"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout + done.stderr


def use_everything(broker: FaultyBroker) -> None:
    """Records, keys, headers, transactions that end and abort, a compacted topic, offsets of a group with metadata."""
    settings = {"bootstrap.servers": broker.bootstrap}
    text = MARK.decode()
    create_topic(
        broker.bootstrap, "compacted", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    )
    create_topic(broker.bootstrap, "sent", 2)
    plain = Producer(settings)
    for number in range(300):
        for topic in ("compacted", "sent"):
            plain.produce(topic, text + str(number), text + str(number % 3), headers={"h": text})
        plain.flush(60)
    producer = Producer({**settings, "transactional.id": text})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("sent", text, text)
        producer.flush(60)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(60)
    consumer = Consumer({**settings, "group.id": text, "auto.offset.reset": "earliest"})
    consumer.commit(offsets=[TopicPartition("sent", 0, 1, metadata=text)], asynchronous=False)
    consumer.close()


def test_nothing_plain_is_on_the_disk(new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path) -> None:
    broker = new_broker(with_keys(tmp_path, "file:a", **{"transaction.state.log.min.isr": "1"}))
    broker.start()
    use_everything(broker)
    first = broker.data / "compacted-0" / f"{0:020d}.log"
    wait_until(lambda: first.stat().st_size < 16_000, 60, "the topic is compacted")
    broker.kill()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert all(
            value.startswith(MARK) for value in values(connection, "sent") if value and len(value) > 10
        )
        found = [value for value in values(connection, "compacted") if value is not None]
        assert {value[-1:] for value in found[-3:]} == {b"9", b"8", b"7"}
    broker.stop()
    assert not files_with(broker.data, MARK.rstrip())
    data = [path for path in broker.data.rglob("*") if path.suffix in (".log", ".txnindex", ".snapshot")]
    assert {".log", ".txnindex", ".snapshot"} == {path.suffix for path in data if path.stat().st_size}
    assert all(is_encrypted(path.read_bytes()) for path in data if path.stat().st_size)


@pytest.mark.parametrize("flush", ["1", "9223372036854775807"])
def test_nothing_acknowledged_is_lost_when_it_is_killed(
    flush: str, new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    kill_again_and_again(new_broker(with_keys(tmp_path, "file:a")), 3, {"flush.messages": flush})


def test_a_topic_is_encrypted_from_its_next_segment_on(
    new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    broker = new_broker(with_keys(tmp_path))
    broker.start()
    create_topic(broker.bootstrap, "t")
    with Connection(broker.bootstrap) as connection:
        append(connection, "t", marked(0))
        tidelog(
            "configs",
            "set",
            "topic",
            "t",
            "encryption.key=file:a",
            "--bootstrap",
            broker.bootstrap,
        )
        number = 1
        while len(logs(broker, "t-0")) < 3:
            append(connection, "t", marked(number))
            number += 1
        assert len(values(connection, "t")) == number
    first, *_, last = logs(broker, "t-0")
    assert MARK in first.read_bytes() and MARK not in last.read_bytes()
    shown = tidelog("keys", "status", "--data", str(broker.data))
    assert "none" in shown and "file:a" in shown
    dumped = tidelog("log", "dump", "--records", str(last), "--keys-dir", str(tmp_path / "keys"))
    assert MARK.decode() in dumped
    assert "is encrypted" in tidelog("log", "dump", str(last), ok=False)


def test_a_new_version_is_used_without_writing_data_anew(
    new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    broker = new_broker(with_keys(tmp_path, "file:a"))
    broker.start()
    create_topic(broker.bootstrap, "t")
    with Connection(broker.bootstrap) as connection:
        append(connection, "t", marked(0))
        before = logs(broker, "t-0")[0].read_bytes()
        tidelog("keys", "rotate", "file:a", "--keys-dir", str(tmp_path / "keys"))
        stored = broker.data / "encryption-keys"
        wait_until(
            lambda: b'"version": 2' in stored.read_bytes() and b"file:v1" not in stored.read_bytes(),
            60,
            "rewrapped",
        )
        number = 1
        while len(logs(broker, "t-0")) < 3:
            append(connection, "t", marked(number))
            number += 1
    first, *_, last = logs(broker, "t-0")
    assert first.read_bytes().startswith(before)
    assert first.read_bytes()[8:24] != last.read_bytes()[8:24], "another data key"
    broker.stop()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert len(values(connection, "t")) == number


def errors_of(connection: Connection, topic: str) -> tuple[int, int]:
    """Of a produce and of a fetch."""
    produced = produce(connection, topic, marked(0)).error_code
    return int(produced), int(fetch(connection, topic, 0).error_code)


def test_deleting_a_key_deletes_the_data_and_nothing_else(
    new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    broker = new_broker(with_keys(tmp_path))
    broker.start()
    create_topic(broker.bootstrap, "gone", 1, {"encryption.key": "file:a"})
    create_topic(broker.bootstrap, "kept", 1, {"encryption.key": "file:b"})
    command = ["keys", "delete", "file:a", "--keys-dir", str(tmp_path / "keys"), "--data", str(broker.data)]
    with Connection(broker.bootstrap) as connection:
        for topic in ("gone", "kept"):
            append(connection, topic, marked(0))
        assert "gone: 1 file" in tidelog(*command, "--dry-run")
        assert errors_of(connection, "gone") == (0, 0)
        tidelog(*command, "--yes")
        wait_until(
            lambda: errors_of(connection, "gone") == (STORAGE_ERROR, STORAGE_ERROR), 60, "it cannot be read"
        )
        assert errors_of(connection, "kept") == (0, 0)
    broker.kill()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert errors_of(connection, "gone") == (STORAGE_ERROR, STORAGE_ERROR)
        assert errors_of(connection, "kept") == (0, 0)
    assert "there is no key file:a" in broker.log_text()
    tidelog("topics", "delete", "gone", "--bootstrap", broker.bootstrap)
    broker.stop()


def test_keys_that_are_away_at_the_start_come_back(
    new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    broker = new_broker(with_keys(tmp_path))
    broker.start()
    create_topic(broker.bootstrap, "t", 1, {"encryption.key": "file:a"})
    create_topic(broker.bootstrap, "plain")
    with Connection(broker.bootstrap) as connection:
        append(connection, "t", marked(0))
    for kill in (False, True):
        (broker.kill if kill else broker.stop)()
        os.rename(tmp_path / "keys", tmp_path / "elsewhere")
        broker.start()
        with Connection(broker.bootstrap) as connection:
            assert errors_of(connection, "t") == (STORAGE_ERROR, STORAGE_ERROR)
            assert errors_of(connection, "plain") == (0, 0)
            assert f"the folder of keys {tmp_path / 'keys'} is not there" in broker.log_text()
            os.rename(tmp_path / "elsewhere", tmp_path / "keys")
            wait_until(lambda: errors_of(connection, "t") == (0, 0), 60, "it is back")
            assert values(connection, "t")[0] is not None


@pytest.fixture
def vault() -> Iterator[TransitServer]:
    server = TransitServer()
    server.start()
    yield server
    server.stop()


def test_keys_of_a_transit_engine(new_broker: BrokerFactory, vault: TransitServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    options = ["--vault", vault.url, "--vault-token-file", str(token)]
    tidelog("keys", "create", "vault:orders", *options)
    settings = {
        "encryption.vault.url": vault.url,
        "encryption.vault.token.file": str(token),
        "encryption.key": "vault:orders",
    }
    broker = new_broker({**SMALL, **REFRESH, **settings})
    broker.start()
    create_topic(broker.bootstrap, "t")
    with Connection(broker.bootstrap) as connection:
        wait_until(lambda: errors_of(connection, "t")[0] == 0, 60, "the key is here")
        append(connection, "t", marked(1))
        vault.stop()
        assert errors_of(connection, "t") == (0, 0), "keys that are here stay in use"
    broker.kill()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert errors_of(connection, "t") == (STORAGE_ERROR, STORAGE_ERROR)
        assert "cannot be reached" in broker.log_text() and TOKEN not in broker.log_text()
        vault.start()
        wait_until(lambda: errors_of(connection, "t") == (0, 0), 60, "it is back")
        tidelog("keys", "rotate", "vault:orders", *options)
        wait_until(
            lambda: b"vault:v1:" not in (broker.data / "encryption-keys").read_bytes(), 60, "rewrapped"
        )
        tidelog("keys", "delete", "vault:orders", *options, "--data", str(broker.data), "--yes")
        wait_until(
            lambda: errors_of(connection, "t") == (STORAGE_ERROR, STORAGE_ERROR), 60, "it cannot be read"
        )
    assert not files_with(broker.data, MARK.rstrip())


def test_what_rots_or_is_put_somewhere_else_is_never_served(
    new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    broker = new_broker(with_keys(tmp_path, "file:a"))
    broker.start()
    create_topic(broker.bootstrap, "t", 5)
    with Connection(broker.bootstrap) as connection:
        for partition in range(5):
            for number in range(8):
                append(connection, "t", marked(number), partition)
    broker.stop()

    def rot(partition: int, position: int) -> None:
        with logs(broker, f"t-{partition}")[0].open("r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 1]))

    rot(0, 3)  # one copy of the header
    rot(1, 1024 + (logs(broker, "t-1")[0].stat().st_size - 1024) * 9 // 16)  # in the batch with offset 4
    shutil.copyfile(logs(broker, "t-3")[0], logs(broker, "t-2")[0])  # of another partition
    keys_file = broker.data / "encryption-keys"
    keys_file.write_bytes(keys_file.read_bytes().replace(b"file:v1:", b"file:v1;"))
    broker.start()
    assert "encryption-keys is damaged" in broker.log_text()
    with Connection(broker.bootstrap) as connection:
        whole = values(connection, "t", 3)
        assert len(whole) == 8
        assert values(connection, "t", 0) == values(connection, "t", 4) == whole, "the other copy is used"
        assert not values(connection, "t", 2)
        assert fetch(connection, "t", 4, 1).error_code == CORRUPT
        wait_until(lambda: fetch(connection, "t", 6, 1).error_code == 0, 60, "the damage is known")
        assert values(connection, "t", 1, 6) == whole[6:], "what is not damaged is served"
    broker.stop()


def test_a_key_that_others_can_read_is_not_used(
    new_broker: BrokerFactory, keys: KeyFiles, tmp_path: Path
) -> None:
    broker = new_broker(with_keys(tmp_path, "file:a"))
    broker.start()
    create_topic(broker.bootstrap, "t")
    broker.stop()
    (tmp_path / "keys" / "a.json").chmod(0o644)
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert errors_of(connection, "t")[0] == STORAGE_ERROR
        assert "chmod 600" in broker.log_text()
        (tmp_path / "keys" / "a.json").chmod(0o600)
        wait_until(lambda: errors_of(connection, "t") == (0, 0), 60, "it is used")
