"""Share sessions, the consumer's side: requests name only the partitions that have changed since the last one.  Pure.

Like a fetch session: epoch 0 begins it and names all partitions, later epochs name changes, -1 ends it.  No
acknowledgement can go along with epoch 0: records that were acquired before belong to a session that is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.client.share.acknowledgements import AcknowledgedOffsets
from tidelog.wire.messages import share_acknowledge, share_fetch
from tidelog.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic
from tidelog.wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic

FIRST_EPOCH = 0
LAST_EPOCH = -1
EPOCH_MAX = 2**31 - 1


class SharePartitionKey(NamedTuple):
    topic_id: uuid.UUID
    partition: int


class ShareSessionHandler:
    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self._known: set[SharePartitionKey] = set()

    def fetch_topics(
        self, wanted: Sequence[SharePartitionKey], acks: Mapping[SharePartitionKey, list[AcknowledgedOffsets]]
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """For the next fetch: partitions that are new or have acknowledgements, and partitions that are not wanted
        any more."""
        new = [partition for partition in wanted if partition not in self._known or self.epoch == FIRST_EPOCH]
        named: dict[uuid.UUID, list[FetchPartition]] = {}
        for place in dict.fromkeys([*new, *acks]):
            batches = [
                share_fetch.AcknowledgementBatch(run.first, run.last, [run.kind])
                for run in acks.get(place, ())
            ]
            named.setdefault(place.topic_id, []).append(FetchPartition(place.partition, batches))
        forgotten: dict[uuid.UUID, list[int]] = {}
        for place in self._known - set(wanted):
            forgotten.setdefault(place.topic_id, []).append(place.partition)
        self._known = set(wanted)
        return (
            [FetchTopic(topic_id, parts) for topic_id, parts in named.items()],
            [ForgottenTopic(topic_id, parts) for topic_id, parts in forgotten.items()],
        )

    def answered(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1

    def failed(self) -> None:
        self.epoch = FIRST_EPOCH
        self._known = set()


def acknowledge_topics(acks: Mapping[SharePartitionKey, list[AcknowledgedOffsets]]) -> list[AcknowledgeTopic]:
    topics: dict[uuid.UUID, list[AcknowledgePartition]] = {}
    for place, listed in acks.items():
        batches = [share_acknowledge.AcknowledgementBatch(run.first, run.last, [run.kind]) for run in listed]
        topics.setdefault(place.topic_id, []).append(AcknowledgePartition(place.partition, batches))
    return [AcknowledgeTopic(topic_id, parts) for topic_id, parts in topics.items()]
