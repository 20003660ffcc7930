"""How far a stream has come, as Spark keeps it in checkpoints: `{"orders": {"0": 42}, "@ids": {"orders": "..."}}`.  Pure.

The ids of topics tell a topic that was deleted and made anew, whose offsets mean something else.  No topic's name
can begin with an @.

Where a stream began is not kept by Spark: it asks again when the first batch has to be repeated, and "latest" is another
place by then.  So the end of the first batch says it, too (`@began`), and what `initialOffset` answers is marked (`@first`).
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
    """The next offset to read of every partition, and the ids of their topics."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    first: bool = False
    """Where a new stream begins: nothing was read up to here."""
    began: Mapping[TopicPartition, int] | None = None
    """With the end of the first batch: where that one began."""

    def to_json(self) -> dict[str, Any]:
        topics = _nested(self.offsets)
        names = set(topics)
        if self.ids:
            topics[IDS] = {name: str(one) for name, one in sorted(self.ids.items()) if name in names}
        if self.first:
            topics[FIRST] = True
        if self.began is not None:
            topics[BEGAN] = _nested(self.began)
        return topics

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StreamPositions:
        try:
            offsets = _flat({name: one for name, one in stored.items() if not name.startswith("@")})
            ids = {name: uuid.UUID(one) for name, one in stored.get(IDS, {}).items()}
            began = _flat(stored[BEGAN]) if BEGAN in stored else None
        except (TypeError, ValueError, AttributeError):
            raise PipelineError(
                "the checkpoint was not written by a tidelog source: give this query a checkpoint of its own"
            ) from None
        return cls(offsets, ids, bool(stored.get(FIRST)), began)

    def ended(self, end: StreamPositions) -> StreamPositions:
        """The end of a batch that begins here."""
        return replace(end, first=False, began=dict(self.offsets) if self.first else None)

    def really(self, end: StreamPositions) -> StreamPositions:
        """Where the batch with this end began, whenever it is asked."""
        if self.first and end.began is not None:
            return replace(self, offsets=end.began, ids=end.ids)
        return self

    @property
    def topics(self) -> set[str]:
        return {one.topic for one in self.offsets}


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
