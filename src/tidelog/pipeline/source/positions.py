"""The positions of a stream in Spark's checkpoints: `{"orders": {"0": 42}, "@ids": {"orders": "..."}}`.  Pure.

The topic ids show whether a topic was deleted and created again, since its offsets then mean something else.  A topic name
cannot begin with an @.

Spark does not keep where a stream began: it asks again when it repeats the first batch, and "latest" is another offset by
then.  So the end of the first batch also has its start (`@began`), and the answer of `initialOffset` is marked (`@first`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidelog.pipeline.options.text import PipelineError
from tidelog.types import TopicPartition

IDS, BEGAN, FIRST = "@ids", "@began", "@first"


@dataclass(frozen=True, slots=True)
class StreamPositions:
    """The next offset to read in every partition, and the ids of the topics."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    first: bool = False
    """True for the start of a new stream, which has read nothing yet."""
    began: Mapping[TopicPartition, int] | None = None
    """In the end of the first batch: the start of that batch."""

    def to_json(self) -> dict[str, Any]:
        topics = _nested(self.offsets)
        names = set(topics)
        if self.ids:
            topics[IDS] = {
                name: str(topic_id) for name, topic_id in sorted(self.ids.items()) if name in names
            }
        if self.first:
            topics[FIRST] = True
        if self.began is not None:
            topics[BEGAN] = _nested(self.began)
        return topics

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StreamPositions:
        try:
            offsets = _flat(
                {name: partitions for name, partitions in stored.items() if not name.startswith("@")}
            )
            ids = {name: uuid.UUID(topic_id) for name, topic_id in stored.get(IDS, {}).items()}
            began = _flat(stored[BEGAN]) if BEGAN in stored else None
        except (TypeError, ValueError, AttributeError):
            raise PipelineError(
                "A tidelog source did not write the checkpoint: give this query a checkpoint of its own"
            ) from None
        return cls(offsets, ids, bool(stored.get(FIRST)), began)

    def ended(self, end: StreamPositions) -> StreamPositions:
        """The end of a batch that begins here."""
        return replace(end, first=False, began=dict(self.offsets) if self.first else None)

    def really(self, end: StreamPositions) -> StreamPositions:
        """The start of the batch that has this end, also when Spark repeats the batch."""
        if self.first and end.began is not None:
            return replace(self, offsets=end.began, ids=end.ids)
        return self

    @property
    def topics(self) -> set[str]:
        return {partition.topic for partition in self.offsets}


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    topics: dict[str, Any] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return topics


def _flat(topics: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(index)): int(offset)
        for topic, partitions in topics.items()
        for index, offset in partitions.items()
    }
