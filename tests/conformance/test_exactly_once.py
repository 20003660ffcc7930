"""What a consume-transform-produce loop promises, kept while its process is killed at random."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from random import Random

import confluent_kafka
import pytest

from tests.conformance.clients import Message, confluent_produce

WORKER = "tests.conformance.transform_worker"
PARTITIONS = 2
TRANSACTION_S = 0.02  # about as long as one takes
Topic = Callable[..., str]


class Worker:
    """One life of the loop."""

    def __init__(self, promise: str, bootstrap: str, group: str, source: str, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", WORKER, promise, bootstrap, group, source, target, str(PARTITIONS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = self._process.stdout

    def live(self, lines: int, then_s: float = 0.0) -> bool:
        """Kills it after so many lines and a moment; true when it had ended by itself before."""
        for _ in range(lines):
            line = self._lines.readline()
            if line.strip() == "done":
                assert self._process.wait(30) == 0
                return True
            assert line, "the loop failed"
        try:
            return self._process.wait(then_s) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait(30)
        self._lines.close()
        return False


def run_with_kills(promise: str, bootstrap: str, topic: Topic, inputs: int, kills: int) -> Counter[bytes]:
    """How often each input is in the output, as far as it is committed."""
    random = Random(f"{promise} {inputs} {kills}")
    source, target = topic(partitions=PARTITIONS), topic()
    for index in range(PARTITIONS):
        values = [Message(b"%d" % number) for number in range(index, inputs, PARTITIONS)]
        confluent_produce(bootstrap, source, values, partition=index)
    group = f"loop-{source}"
    for _ in range(kills):
        # Anywhere: before its first transaction, between two, or in the middle of one.
        lines, then_s = random.randint(0, 2 + inputs // 7 // (kills + 1)), random.uniform(0, TRANSACTION_S)
        if Worker(promise, bootstrap, group, source, target).live(lines, then_s):
            break
    assert Worker(promise, bootstrap, group, source, target).live(inputs + 2)
    return Counter(read_committed(bootstrap, target))


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append(message.value().removeprefix(b"seen "))


def every(inputs: int) -> set[bytes]:
    return {b"%d" % number for number in range(inputs)}


@pytest.mark.parametrize(
    ("inputs", "kills"), [(300, 5), pytest.param(3_000, 50, marks=pytest.mark.deep)], ids=["5", "50"]
)
def test_every_input_is_in_the_output_exactly_once(
    bootstrap: str, topic: Topic, inputs: int, kills: int
) -> None:
    seen = run_with_kills("exactly-once", bootstrap, topic, inputs, kills)
    assert set(seen) == every(inputs)
    assert set(seen.values()) == {1}


def test_who_commits_after_the_output_sees_every_input_at_least_once(bootstrap: str, topic: Topic) -> None:
    seen = run_with_kills("at-least-once", bootstrap, topic, 150, 4)
    assert set(seen) == every(150)


def test_who_commits_before_the_output_sees_every_input_at_most_once(bootstrap: str, topic: Topic) -> None:
    seen = run_with_kills("at-most-once", bootstrap, topic, 150, 4)
    assert set(seen) <= every(150)
    assert set(seen.values()) <= {1}
