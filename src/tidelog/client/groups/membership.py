"""The interface of all memberships in groups: the requests that `MembershipTask` sends, the changes that the consumer
applies.  Pure.

A membership (`ClassicMembership`, `ConsumerMembership`, `ShareMembership`, `SoloMembership`) is a state machine.  `due`
is its next request to the coordinator, and it hears of every answer and failure.  When the assignment changes, it shows
a `change` and waits until the consumer has given up and taken the partitions in it; no partition moves while the
application may be in the middle of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tidelog import errors
from tidelog.client.groups.metadata import GroupMetadata
from tidelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """`owned` is what the member has afterwards; `lost` was taken away without asking, and nothing may be
    committed for it any more."""

    owned: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...] = ()
    lost: tuple[TopicPartition, ...] = ()
    added: tuple[TopicPartition, ...] = ()


class CoordinatorRequest(NamedTuple):
    """A request to the coordinator; `wait_ms` is how long it may be held there."""

    request: Any
    response: Any
    wait_ms: int = 0


class MetadataLookup(NamedTuple):
    """Metadata that the membership needs before it can go on: topics by name, or by id."""

    topics: tuple[str, ...] = ()
    ids: tuple[uuid.UUID, ...] = ()


class Membership(Protocol):
    """`problem`: the error that has ended the membership for good.  `in_group`: the coordinator knows this member."""

    change: AssignmentChange | None
    problem: errors.TidelogError | None
    rebalances: int

    @property
    def in_group(self) -> bool: ...

    @property
    def identity(self) -> GroupMetadata: ...

    def subscribed(self, topics: Collection[str], pattern: str | None = None) -> None:
        """The topics to read; with a `pattern`, `topics` are the topics that match it."""
        ...

    def due(self, now_ms: float) -> CoordinatorRequest | MetadataLookup | None: ...

    def next_ms(self) -> float | None:
        """When `due` may have something without any further event."""
        ...

    def answered(self, answer: Any, now_ms: float) -> None:
        """To the `CoordinatorRequest` that was due last."""
        ...

    def failed(self, problem: errors.TidelogError, now_ms: float, wait_ms: float) -> None:
        """The last thing due could not be done; it may be tried again after `wait_ms`."""
        ...

    def looked_up(self, partitions: Mapping[str, int], names: Mapping[uuid.UUID, str], now_ms: float) -> None:
        """The answer to a `MetadataLookup`: how many partitions topics have, and their names by id."""
        ...

    def seen(self, partitions: Mapping[str, int]) -> None:
        """The metadata as they are now."""
        ...

    def applied(self) -> None:
        """The consumer has applied `change`."""
        ...

    def expired(self) -> None:
        """The application has not polled for too long: other members get its partitions."""
        ...

    def leave(self) -> CoordinatorRequest | None:
        """The request that ends the membership, if there is one to end; the membership is over after it."""
        ...


def ordered(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions))
