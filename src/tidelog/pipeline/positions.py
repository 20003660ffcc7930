"""How far a stream has come, as Spark keeps it in checkpoints: `{"orders": {"0": 42}, "@ids": {"orders": "..."}}`.  Pure.

The ids of topics tell a topic that was deleted and made anew, whose offsets mean something else.  No topic's name
can begin with an @.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.pipeline.option_text import PipelineError
from tidelog.types import TopicPartition

IDS = "@ids"


@dataclass(frozen=True, slots=True)
class Positions:
    """The next offset to read of every partition, and the ids of their topics."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, uuid.UUID] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        for partition, offset in sorted(self.offsets.items()):
            topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
        if self.ids:
            topics[IDS] = {name: str(one) for name, one in sorted(self.ids.items()) if name in topics}
        return topics

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Positions:
        try:
            offsets = {
                TopicPartition(topic, int(index)): int(offset)
                for topic, partitions in stored.items()
                if topic != IDS
                for index, offset in partitions.items()
            }
            ids = {name: uuid.UUID(one) for name, one in stored.get(IDS, {}).items()}
        except (TypeError, ValueError, AttributeError):
            raise PipelineError(
                "the checkpoint was not written by a tidelog source: give this query a checkpoint of its own"
            ) from None
        return cls(offsets, ids)

    @property
    def topics(self) -> set[str]:
        return {one.topic for one in self.offsets}
