"""What leaders of partitions ask the share coordinator, as Apache Kafka answers it."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection
from tests.conformance.share_client import Asking
from tests.conformance.topics import create_topic, describe
from tidelog import errors
from tidelog.wire.messages import delete_share_group_state as delete
from tidelog.wire.messages import initialize_share_group_state as initialize
from tidelog.wire.messages import read_share_group_state as read
from tidelog.wire.messages import read_share_group_state_summary as summary
from tidelog.wire.messages import write_share_group_state as write
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

Batch = tuple[int, int, int, int]  # first, last, state, deliveries
SHARE = 2


class Coordinator(Asking):
    """The share coordinator of one group and one partition."""

    def __init__(self, bootstrap: str, group: str, topic_id: uuid.UUID) -> None:
        super().__init__(bootstrap)
        self.group = group
        self.topic_id = topic_id

    def find(self, key: str) -> int:
        (found,) = self.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])).coordinators
        return int(found.error_code)

    def initialize(
        self, epoch: int, start: int, partition: int = 0, topic_id: uuid.UUID | None = None
    ) -> int:
        part = initialize.PartitionData(partition, epoch, start)
        data = [initialize.InitializeStateData(topic_id or self.topic_id, [part])]
        return self._one(initialize.InitializeShareGroupStateRequest(self.group, data)).error_code  # type: ignore[no-any-return]

    def write(self, epoch: int, leader: int, start: int, finished: int, *batches: Batch) -> int:
        part = write.PartitionData(
            0, epoch, leader, start, finished, [write.StateBatch(*one) for one in batches]
        )
        data = [write.WriteStateData(self.topic_id, [part])]
        return self._one(write.WriteShareGroupStateRequest(self.group, data)).error_code  # type: ignore[no-any-return]

    def read(self, leader: int) -> Any:
        data = [read.ReadStateData(self.topic_id, [read.PartitionData(0, leader)])]
        return self._one(read.ReadShareGroupStateRequest(self.group, data))

    def batches(self, leader: int) -> list[Batch]:
        return [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in self.read(leader).state_batches
        ]

    def summary(self) -> tuple[int, int, int, int, int]:
        data = [summary.ReadStateSummaryData(self.topic_id, [summary.PartitionData(0, 0)])]
        told = self._one(summary.ReadShareGroupStateSummaryRequest(self.group, data))
        return (
            told.error_code,
            told.state_epoch,
            told.leader_epoch,
            told.start_offset,
            told.delivery_complete_count,
        )

    def delete(self) -> int:
        data = [delete.DeleteStateData(self.topic_id, [delete.PartitionData(0)])]
        return self._one(delete.DeleteShareGroupStateRequest(self.group, data)).error_code  # type: ignore[no-any-return]

    def _one(self, request: Any) -> Any:
        (told,) = [one for topic in self.ask(request).results for one in topic.partitions]
        return told


@pytest.fixture
def coordinator(share_broker: BrokerProcess, name: Callable[[], str]) -> Iterator[Coordinator]:
    topic = name()
    create_topic(share_broker.bootstrap, topic)
    with Connection(share_broker.bootstrap) as connection:
        topic_id = describe(connection, topic).topic_id
    with Coordinator(share_broker.bootstrap, name(), topic_id) as asking:
        key = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
        while asking.find(f"{asking.group}:{key}:0"):
            continue  # Kafka makes the topic meanwhile
        while asking.summary()[0]:
            continue
        yield asking


def test_only_whole_keys_have_a_coordinator(coordinator: Coordinator) -> None:
    for key in ("", "group", "group:0", "group:topic:0", f"group:{'A' * 22}:x"):
        assert coordinator.find(key) == errors.InvalidRequest.code, key


def test_what_is_not_initialized_cannot_be_read_or_written(coordinator: Coordinator) -> None:
    assert coordinator.read(0).error_code == errors.InvalidRequest.code
    assert coordinator.write(0, 0, 5, 0) == errors.InvalidRequest.code
    assert coordinator.summary()[:4] == (0, 0, 0, -1)
    assert coordinator.delete() == 0
    assert coordinator.initialize(1, 0, partition=-1) == errors.InvalidRequest.code
    assert coordinator.initialize(1, 0, partition=9) == errors.UnknownTopicOrPartition.code
    assert coordinator.initialize(1, 0, topic_id=uuid.uuid4()) == errors.UnknownTopicOrPartition.code


def test_writes_add_up_and_later_deliveries_win(coordinator: Coordinator) -> None:
    assert coordinator.initialize(3, 5) == 0
    assert coordinator.summary() == (0, 3, 0, 5, 0)
    assert coordinator.write(3, 0, 5, 0, (5, 9, 2, 1), (12, 14, 0, 1)) == 0
    assert coordinator.batches(0) == [(5, 9, 2, 1), (12, 14, 0, 1)]
    assert coordinator.write(3, 0, -1, 0, (5, 5, 0, 1), (12, 13, 2, 2)) == 0
    assert coordinator.batches(0) == [(5, 9, 2, 1), (12, 13, 2, 2), (14, 14, 0, 1)]
    assert coordinator.write(3, 0, 13, 1) == 0
    assert coordinator.batches(0) == [(13, 13, 2, 2), (14, 14, 0, 1)]
    assert coordinator.summary() == (0, 3, 0, 13, 1)
    assert coordinator.delete() == 0
    assert coordinator.read(0).error_code == errors.InvalidRequest.code


def test_older_leaders_and_older_states_are_fenced(coordinator: Coordinator) -> None:
    assert coordinator.initialize(3, 5) == 0
    assert coordinator.initialize(2, 5) == errors.FencedStateEpoch.code
    assert coordinator.write(2, 0, 5, 0) == errors.FencedStateEpoch.code
    assert coordinator.read(4).error_code == 0
    assert coordinator.write(3, 3, 5, 0) == errors.FencedLeaderEpoch.code
    assert coordinator.read(3).error_code == errors.FencedLeaderEpoch.code
    assert coordinator.write(3, 4, 6, 0) == 0
    assert coordinator.initialize(4, 0) == 0
    error, epoch, _, start, _ = coordinator.summary()
    assert (error, epoch, start) == (0, 4, 0)
