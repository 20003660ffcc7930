"""Exactly-once workers on a queue of three brokers: the queue, its state, the transactions and the output are led by
different ones, and workers and brokers are killed in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.process import wait_until
from tests.conformance.test_exactly_once import read
from tests.faults.test_dev import Dev, new_dev
from tidelog import Admin, NewTopic

__all__ = ["new_dev"]

QUEUE, TARGET = "jobs", "jobs-out"
SECONDS_MAX = 180
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


class QueueWorker:
    def __init__(self, name: str, addresses: str) -> None:
        self._command = [
            sys.executable,
            "-m",
            "tests.conformance.queue_worker",
            name,
            addresses,
            QUEUE,
            TARGET,
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def committed(dev: Dev) -> list[bytes]:
    return read(dev.addresses, TARGET, "read_committed")


@pytest.mark.parametrize(
    ("count", "kills"), [(1_500, 4), pytest.param(10_000, 40, marks=pytest.mark.deep)], ids=["4", "40"]
)
def test_every_record_is_worked_on_exactly_once(new_dev: Callable[..., Dev], count: int, kills: int) -> None:
    random = Random(kills)
    dev = new_dev(3, settings=SETTINGS)
    assert dev.start().startswith("ready")
    with Admin(bootstrap_servers=dev.addresses) as admin:
        queue = NewTopic(QUEUE, 3, 3, configs={"queue.groups": QUEUE})
        admin.create_topics([queue, NewTopic(TARGET, 1, 3)])
    for partition in range(3):
        values = [Message(value=b"%d" % number) for number in range(partition, count, 3)]
        confluent_produce(dev.addresses, QUEUE, values, partition=partition)
    workers = [QueueWorker(f"worker-{number}", dev.addresses) for number in range(3)]
    try:
        for kill in range(kills):
            reached = (kill + 1) * count // (2 * kills)
            wait_until(lambda: len(committed(dev)) >= reached, SECONDS_MAX, "the workers work", every=0.2)  # noqa: B023
            time.sleep(random.uniform(0, 0.1))
            if kill % 2:
                number = random.randrange(3)
                os.kill(dev.state()["brokers"][number]["pid"], signal.SIGKILL)
                time.sleep(random.uniform(0, 3))
                dev.restart(number + 1)
            else:
                worker = random.choice(workers)
                worker.kill()
                worker.start()
        wait_until(lambda: len(committed(dev)) >= count, SECONDS_MAX, "all is worked on", every=0.5)
    finally:
        for worker in workers:
            worker.kill()
    seen = Counter(committed(dev))
    assert set(seen.values()) == {1}
    assert set(seen) == {b"seen %d" % number for number in range(count)}
    dev.end()
