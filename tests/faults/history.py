"""What a producer was told and what is in the log afterwards, and that the two agree."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from tests.conformance.raw import Connection
from tests.conformance.topics import list_offset, read_all

FLUSH_SECONDS_MAX = 180


class Writer:
    """An idempotent producer (acks=all) that writes numbers to the partitions of a topic, in a thread of its own,
    and keeps what it is told.  A context manager: it writes until the block ends, then waits for what is left."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: Any) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self.offsets: dict[int, int] = {}
        self.failures: list[str] = []
        base: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "message.timeout.ms": FLUSH_SECONDS_MAX * 1000,
            "log_level": 0,
        }
        self._producer = confluent_kafka.Producer(
            base | {k.replace("_", "."): v for k, v in settings.items()}
        )
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._producer.flush(FLUSH_SECONDS_MAX)

    @property
    def acknowledged(self) -> int:
        return len(self.offsets)

    def _write(self) -> None:
        while not self._done.is_set():
            number = self.sent
            # Long ones now and then, so that batches and segments differ.
            value = b"%d " % number + b"x" * (2000 if number % 97 == 0 else number % 50)
            try:
                self._producer.produce(
                    self.topic, value, partition=number % self.partitions, on_delivery=self._delivered
                )
                self.sent += 1
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)
            if self.sent - self.acknowledged > 500:
                self._producer.poll(0.02)

    def _delivered(self, error: Any, message: Any) -> None:
        number = number_of(message.value())
        if error is not None:
            self.failures.append(f"{number}: {error}")
        else:
            self.offsets[number] = message.offset()


def number_of(value: bytes) -> int:
    return int(value.split(b" ", 1)[0])


def check(writer: Writer, bootstrap: str | Mapping[int, str]) -> None:
    """Everything acknowledged is there, once, where the producer was told; offsets are dense and order is kept.
    `bootstrap`: of the only broker, or of the leader of each partition."""
    assert not writer.failures, writer.failures[:3]
    for partition in range(writer.partitions):
        with Connection(bootstrap if isinstance(bootstrap, str) else bootstrap[partition]) as connection:
            found = read_all(connection, writer.topic, partition)
            assert [offset for offset, _ in found] == list(range(len(found))), "offsets have gaps"
            assert list_offset(connection, writer.topic, -1, partition).offset == len(found)
            numbers = [number_of(record.value or b"") for _, record in found]
            assert numbers == sorted(set(numbers)), f"partition {partition}: not in order, or twice"
            told = {n: o for n, o in writer.offsets.items() if n % writer.partitions == partition}
            held = {number: offset for (offset, _), number in zip(found, numbers, strict=True)}
            lost = [n for n, o in told.items() if held.get(n) != o]
            assert not lost, (
                f"partition {partition}: {len(lost)} acknowledged and not there, first {lost[:5]}"
            )
