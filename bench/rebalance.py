"""How long a member takes to join and to leave, with confluent-kafka's consumers, which share one topic evenly."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import Any

PARTITIONS = 12
SETTLE_SECONDS_MAX = 30


class Member(threading.Thread):
    def __init__(self, port: int, group: str, topic: str) -> None:
        import confluent_kafka

        super().__init__(daemon=True)
        self.has: set[int] = set()
        self._over = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "group.id": group,
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_assign(partitions)
        self.has |= {one.partition for one in partitions}

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_unassign(partitions)
        self.has -= {one.partition for one in partitions}

    def run(self) -> None:
        while not self._over.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def leave(self) -> None:
        self._over.set()


def settled_after(members: Sequence[Member]) -> float:
    """Seconds until every partition is with one of them, and they have as many each."""
    begin = time.perf_counter()
    while True:
        held = sorted(partition for member in members for partition in member.has)
        shares = {len(member.has) for member in members}
        if held == list(range(PARTITIONS)) and len(shares) == 1:
            return time.perf_counter() - begin
        if time.perf_counter() - begin > SETTLE_SECONDS_MAX:
            raise TimeoutError(f"the group did not settle: {[member.has for member in members]}")
        time.sleep(0.002)


def measure(port: int, topic: str, rounds: int) -> tuple[list[float], list[float]]:
    """(seconds to join, seconds to leave) of a third member."""
    joins, leaves = [], []
    chance = random.Random(1)
    members = [Member(port, "rebalance", topic) for _ in range(2)]
    for member in members:
        member.start()
    settled_after(members)
    for _ in range(rounds):
        time.sleep(3 + 3 * chance.random())  # somewhere between two heartbeats
        third = Member(port, "rebalance", topic)
        third.start()
        joins.append(settled_after([*members, third]))
        time.sleep(3 + 3 * chance.random())
        third.leave()
        leaves.append(settled_after(members))
        third.join()
    for member in members:
        member.leave()
    for member in members:
        member.join()
    return joins, leaves
