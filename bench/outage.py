"""How long a producer goes without an acknowledgement when a broker goes away: a real client, the same for both systems."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import confluent_kafka

INTERVAL_S = 0.005
SETTLE_S = 2.0
WAIT_S_MAX = 60.0
CLIENT = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.timeout.ms": 10_000,
    "log_level": 0,
}


class SteadyProducer(threading.Thread):
    """200 records a second to one partition; a context manager."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(daemon=True)
        self.failed: list[str] = []
        self._topic, self._partition = topic, partition
        self._told: list[float] = []
        self._ended = threading.Event()
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **CLIENT})

    def __enter__(self) -> SteadyProducer:
        self.start()
        self._await(lambda: len(self._told) > 100)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        self._producer.flush(WAIT_S_MAX)
        if self.failed:
            raise RuntimeError(f"a record was given up: {self.failed[0]}")

    def gap_s(self, since: float) -> float:
        """The longest time without an acknowledgement from `since` on, once they flow again."""
        self._await(lambda: self._flows(since))
        told = [moment for moment in self._told if moment > since - 1]
        return max(after - before for before, after in pairwise(told))

    def _flows(self, since: float) -> bool:
        now = time.monotonic()
        return now > since + SETTLE_S and sum(moment > now - 1 for moment in self._told[-400:]) > 50

    def run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(self._topic, b"x" * 100, partition=self._partition, on_delivery=self._tell)
            self._producer.poll(INTERVAL_S)

    def _tell(self, error: Any, _: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self._told.append(time.monotonic())

    @staticmethod
    def _await(reached: Any) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not reached():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no acknowledgements within {WAIT_S_MAX} s")
            time.sleep(0.05)
