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


class Inputs:
    """Numbers in a topic, and more of them when there are too few."""

    def __init__(self, bootstrap: str, topic: Topic, count: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic(partitions=PARTITIONS)
        self.count = 0
        self.add(count)

    def add(self, count: int) -> None:
        for index in range(PARTITIONS):
            numbers = range(self.count + index, self.count + count, PARTITIONS)
            confluent_produce(
                self.bootstrap, self.topic, [Message(b"%d" % one) for one in numbers], partition=index
            )
        self.count += count

    def every(self) -> set[bytes]:
        return {b"%d" % number for number in range(self.count)}


def run_with_kills(
    promise: str, bootstrap: str, topic: Topic, count: int, kills: int
) -> tuple[Inputs, Counter[bytes]]:
    """The inputs, and how often each is in the output, as far as it is committed."""
    random = Random(f"{promise} {count} {kills}")
    inputs, target = Inputs(bootstrap, topic, count), topic()
    group = f"loop-{inputs.topic}"
    most = 2 + count // 7 // (kills + 1)
    while kills:
        # Anywhere: before its first transaction, between two, or in the middle of one.
        lines, then_s = random.randint(0, most), random.uniform(0, TRANSACTION_S)
        if Worker(promise, bootstrap, group, inputs.topic, target).live(lines, then_s):
            inputs.add(count)  # it came to the end before it was killed
        else:
            kills -= 1
    assert Worker(promise, bootstrap, group, inputs.topic, target).live(inputs.count + 2)
    return inputs, Counter(read_committed(bootstrap, target))


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    return [value.removeprefix(b"seen ") for value in read(bootstrap, topic, "read_committed")]


def read(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
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
        found.append(message.value())


@pytest.mark.parametrize(
    ("count", "kills"), [(300, 5), pytest.param(3_000, 50, marks=pytest.mark.deep)], ids=["5", "50"]
)
def test_every_input_is_in_the_output_exactly_once(
    bootstrap: str, topic: Topic, count: int, kills: int
) -> None:
    inputs, seen = run_with_kills("exactly-once", bootstrap, topic, count, kills)
    assert set(seen) == inputs.every()
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.deep)])
def test_members_of_a_group_that_die_in_turn_write_every_input_exactly_once(
    bootstrap: str, topic: Topic, kills: int
) -> None:
    """Partitions move from one to the other and back: a transaction of an older generation must not be committed."""
    random, names = Random(kills), ["a", "b"]
    inputs, target = Inputs(bootstrap, topic, 400), topic()

    def start(name: str) -> Worker:
        return Worker(f"exactly-once-as={name}", bootstrap, f"shared-{inputs.topic}", inputs.topic, target)

    alive = {name: start(name) for name in names}
    while kills:
        name = names[kills % 2]
        if alive[name].live(random.randint(1, 8), random.uniform(0, TRANSACTION_S)):
            inputs.add(400)
        else:
            kills -= 1
        alive[name] = start(name)
    assert all(worker.live(inputs.count + 2) for worker in alive.values())
    assert start("a").live(inputs.count + 2)  # what was added while others were at work
    seen = Counter(read_committed(bootstrap, target))
    assert set(seen) == inputs.every()
    assert set(seen.values()) == {1}


def test_who_commits_after_the_output_sees_every_input_at_least_once(bootstrap: str, topic: Topic) -> None:
    inputs, seen = run_with_kills("at-least-once", bootstrap, topic, 150, 4)
    assert set(seen) == inputs.every()


def test_who_commits_before_the_output_sees_every_input_at_most_once(bootstrap: str, topic: Topic) -> None:
    inputs, seen = run_with_kills("at-most-once", bootstrap, topic, 150, 4)
    assert set(seen) <= inputs.every()
    assert set(seen.values()) <= {1}
