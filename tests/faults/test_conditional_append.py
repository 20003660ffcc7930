"""Topics with `conditional.append.enable`: of many writers that expect the same version one wins, whatever dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.conformance.process import wait_until
from tests.faults.test_dev import Dev, new_dev
from tidelog.record.conditions import EXPECTED_END, EXPECTED_VERSION

__all__ = ["new_dev"]
SECONDS_MAX = 120
CONDITIONAL = {"conditional.append.enable": "true"}
WRITERS = 4
INVALID_RECORD = confluent_kafka.KafkaError.INVALID_RECORD


class Account:
    """Increments the number of one key: reads nothing, knows the version of its own last success or of a refusal's probe."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    def append(
        self, key: bytes, value: bytes | None, version: int | None = None, end: int | None = None
    ) -> int | str:
        """The offset, or the name of the error."""
        told: list[Any] = []
        headers = [(EXPECTED_VERSION, str(version))] if version is not None else []
        headers += [(EXPECTED_END, str(end))] if end is not None else []
        self.producer.produce(
            self.topic,
            value,
            key,
            headers=headers,
            on_delivery=lambda error, message: told.append((error, message)),
        )
        assert self.producer.flush(SECONDS_MAX) == 0
        ((error, message),) = told
        return error.name() if error is not None else message.offset()


def create(bootstrap: str, topic: str, replicas: int = 1, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, replicas, config=CONDITIONAL | settings)])[topic].result(
        SECONDS_MAX
    )


def records(bootstrap: str, topic: str) -> list[tuple[int, bytes]]:
    """(expected version, value) of each record, in their order; the offset is the place in the list."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            consumer.close()
            return found
        assert message.offset() == len(found)
        found.append((int(dict(message.headers())[EXPECTED_VERSION]), message.value()))


def test_a_record_is_taken_when_the_version_of_its_key_is_the_expected_one(
    new_broker: Callable[..., Any], tmp_path: Path
) -> None:
    broker = new_broker()
    broker.start()
    create(broker.bootstrap, "accounts", **{"cleanup.policy": "compact"})
    account = Account(broker.bootstrap, "accounts")
    assert account.append(b"a", b"1", -1) == 0
    assert account.append(b"a", b"2", -1) == "INVALID_RECORD"
    assert account.append(b"a", b"2", 0) == 1
    assert account.append(b"b", b"1", -1, end=2) == 2
    assert account.append(b"b", b"2", end=2) == "INVALID_RECORD"
    assert account.append(b"b", b"2") == 3
    broker.stop()
    broker.start()
    assert account.append(b"b", b"3", 2) == "INVALID_RECORD"
    assert account.append(b"b", None, 3) == 4
    os.kill(broker.pid, signal.SIGKILL)
    broker.wait()
    broker.start()
    assert account.append(b"b", b"1", 4) == "INVALID_RECORD", "a key that was deleted has no version"
    assert account.append(b"b", b"1", -1) == 5
    assert account.append(b"a", b"3", 1) == 6
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    change = ConfigEntry("conditional.append.enable", "false", incremental_operation=AlterConfigOpType.SET)
    plain = ConfigResource(ConfigResource.Type.TOPIC, "accounts", incremental_configs=[change])
    admin.incremental_alter_configs([plain])[plain].result(SECONDS_MAX)
    assert account.append(b"a", b"4", 0) == 7, "without the setting nothing is expected"


def test_transactions_are_refused_with_the_reason(new_broker: Callable[..., Any]) -> None:
    broker = new_broker()
    broker.start()
    create(broker.bootstrap, "accounts")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "log_level": 0}
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    told: list[Any] = []
    producer.produce("accounts", b"1", b"a", on_delivery=lambda error, _: told.append(error.code()))
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(SECONDS_MAX)
    assert told == [INVALID_RECORD]


def test_of_many_writers_one_wins_each_round_through_the_death_of_leaders(
    new_dev: Callable[..., Dev],
) -> None:
    dev = new_dev(3, settings={"min.insync.replicas": "2"})
    assert dev.start()
    create(dev.addresses, "counter", 3)
    wins: list[list[int]] = [[] for _ in range(WRITERS)]
    done = threading.Event()

    def count(mine: list[int]) -> None:
        account, last = Account(dev.addresses, "counter"), -1
        while not done.is_set():
            answer = account.append(b"total", b"%d" % (last + 1), last)
            if isinstance(answer, int):
                mine.append(answer)
                last = answer
            else:
                assert answer == "INVALID_RECORD", answer
                last = max((offset for other in wins for offset in other), default=last)
                last = max(last, last_of(dev.addresses))

    threads = [threading.Thread(target=count, args=(mine,)) for mine in wins]
    for thread in threads:
        thread.start()
    try:
        for number in (1, 2, 3):
            goal = sum(map(len, wins)) + 30
            wait_until(lambda goal=goal: sum(map(len, wins)) >= goal, SECONDS_MAX, "somebody wins")
            os.kill(dev.state()["brokers"][number - 1]["pid"], signal.SIGKILL)
            assert dev.restart(number).returncode == 0
        goal = sum(map(len, wins)) + 30
        wait_until(lambda: sum(map(len, wins)) >= goal, SECONDS_MAX, "somebody wins")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    found = records(dev.addresses, "counter")
    assert [expected for expected, _ in found] == [offset - 1 for offset in range(len(found))], (
        "two won at once"
    )
    won = sorted(offset for mine in wins for offset in mine)
    assert len(set(won)) == len(won) and set(won) <= set(range(len(found))), "a win is lost"
    assert dev.end()[0] == 0


def last_of(bootstrap: str) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0}
    )
    try:
        where = confluent_kafka.TopicPartition("counter", 0)
        return int(consumer.get_watermark_offsets(where, timeout=SECONDS_MAX)[1]) - 1
    except confluent_kafka.KafkaException:
        return -1
    finally:
        consumer.close()
