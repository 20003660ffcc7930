"""kill -9 under share consumers: what was acknowledged is not given again, and nothing is lost."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.share_client import (
    ACCEPT,
    RELEASE,
    SHARE_SETTINGS,
    Asking,
    ShareMember,
    acquired,
    set_group,
)
from tests.conformance.topics import append, create_topic
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory
from tidelog.wire.messages import describe_share_group_offsets as offsets

TOPIC, GROUP = "jobs", "workers"
RECORDS_A_ROUND = 1_000
LOST = (OSError, AssertionError)  # of a connection to a broker that was killed


class Worker:
    """Takes records, accepts most, releases some; remembers which acceptances were answered."""

    def __init__(self, broker: FaultyBroker, seed: int) -> None:
        self.again: list[int] = []  # given after an acceptance that was answered
        self.deliveries: Counter[int] = Counter()
        self.ended = threading.Event()
        self._broker = broker
        self._random = random.Random(seed)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> Worker:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self.ended.is_set():
            try:
                with ShareMember(self._broker.bootstrap, GROUP) as member:
                    self._work(member)
            except LOST:
                time.sleep(0.05)

    def _work(self, member: ShareMember) -> None:
        (part,) = member.join(TOPIC)
        begin = [part]
        beat_at = time.monotonic()
        while not self.ended.is_set():
            if time.monotonic() > beat_at + 0.3:
                if member.beat().error_code:
                    return
                beat_at = time.monotonic()
            answer = member.fetch(begin, max_wait_ms=100, max_records=20, share_acquire_mode=1)
            begin = []
            if answer.error_code:
                return
            self._take(member, part, acquired(answer))

    def _take(
        self, member: ShareMember, part: tuple[uuid.UUID, int], given: list[tuple[int, int, int]]
    ) -> None:
        records = [offset for first, last, _ in given for offset in range(first, last + 1)]
        for offset in records:
            self.deliveries[offset] += 1
            if offset in ALL_ACCEPTED:
                self.again.append(offset)
        if not records:
            return
        kinds = {offset: RELEASE if self._random.random() < 0.1 else ACCEPT for offset in records}
        accepted = {offset for offset, kind in kinds.items() if kind == ACCEPT}
        batches = [(offset, offset, [kind]) for offset, kind in kinds.items()]
        try:
            answer = member.acknowledge({part: batches})
        except LOST:
            UNANSWERED.update(accepted)
            raise
        (code,) = [one.error_code for topic in answer.responses for one in topic.partitions]
        if answer.error_code == 0 and code == 0:
            ALL_ACCEPTED.update(accepted)


ALL_ACCEPTED: set[int] = set()
UNANSWERED: set[int] = set()  # accepted, and the broker was killed before it said so: it may have it


def lag(broker: FaultyBroker) -> int:
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(GROUP, None)
    with Asking(broker.bootstrap) as asking:
        (group,) = asking.ask(offsets.DescribeShareGroupOffsetsRequest([asked])).groups
    return sum(one.lag for topic in group.topics for one in topic.partitions)


def taken() -> int:
    return len(ALL_ACCEPTED | UNANSWERED)


def write(broker: FaultyBroker, first: int) -> None:
    with Connection(broker.bootstrap) as connection:
        for at in range(first, first + RECORDS_A_ROUND, 50):
            append(connection, TOPIC, batch([Record(b"%d" % number) for number in range(at, at + 50)]))


def work_through_kills(broker: FaultyBroker, kills: int) -> None:
    ALL_ACCEPTED.clear()
    UNANSWERED.clear()
    broker.start()
    create_topic(broker.bootstrap, TOPIC)
    set_group(
        broker.bootstrap,
        GROUP,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="10",
        share_record_lock_duration_ms="1000",
        share_partition_max_record_locks="200",
    )
    workers = [Worker(broker, seed).start() for seed in range(2)]
    records = 0
    try:
        for number in range(kills):
            write(broker, records)
            records += RECORDS_A_ROUND
            reached = records - RECORDS_A_ROUND // 2
            wait_until(lambda: taken() >= reached, 60, f"acceptances in round {number}")  # noqa: B023
            broker.kill()
            broker.start()
        wait_until(lambda: lag(broker) == 0, 60, "every record is finished")
    finally:
        for worker in workers:
            worker.stop()
    assert [offset for worker in workers for offset in worker.again] == []
    assert set(range(records)) == ALL_ACCEPTED | UNANSWERED
    assert max(sum((worker.deliveries for worker in workers), Counter()).values()) <= 10 + kills


def test_what_was_accepted_is_never_given_again_and_nothing_is_lost(new_broker: BrokerFactory) -> None:
    work_through_kills(new_broker(SHARE_SETTINGS), 4)


@pytest.mark.deep
def test_what_was_accepted_is_never_given_again_in_many_kills(new_broker: BrokerFactory) -> None:
    work_through_kills(new_broker(SHARE_SETTINGS), 40)
