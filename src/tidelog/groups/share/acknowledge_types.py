"""How records are acknowledged: the types of the protocol, ranges of them, and what is wrong with a request whatever the
partition's state is.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog import errors


class AcknowledgeType(IntEnum):
    GAP = 0  # there is no record at this offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    # Tidelog's own, in requests that name a transaction: they count when it commits.  A broker that does not know them
    # refuses them.
    ACCEPT_IN_TRANSACTION = 17
    REJECT_IN_TRANSACTION = 19


IN_TRANSACTION = {
    AcknowledgeType.ACCEPT_IN_TRANSACTION: AcknowledgeType.ACCEPT,
    AcknowledgeType.REJECT_IN_TRANSACTION: AcknowledgeType.REJECT,
}


class AcknowledgedRange(NamedTuple):
    """`types` holds one type for all offsets, or one for each; `last` is inclusive, as on the wire."""

    first: int
    last: int
    types: Sequence[int]


def uniform_parts(acknowledged: AcknowledgedRange) -> list[tuple[int, int, AcknowledgeType]]:
    """The range in parts of equal acknowledge type."""
    if len(acknowledged.types) == 1:
        return [(acknowledged.first, acknowledged.last, AcknowledgeType(acknowledged.types[0]))]
    parts: list[tuple[int, int, AcknowledgeType]] = []
    for offset, number in enumerate(acknowledged.types, acknowledged.first):
        kind = AcknowledgeType(number)
        if parts and parts[-1][2] is kind:
            parts[-1] = (parts[-1][0], offset, kind)
        else:
            parts.append((offset, offset, kind))
    return parts


def check_acknowledgements(
    batches: Sequence[AcknowledgedRange], renewals: bool, in_transaction: bool = False
) -> None:
    """Checks that do not need the partition's state; raises InvalidRequest for malformed batches."""
    before = -1
    for batch in batches:
        if batch.first > batch.last:
            raise errors.InvalidRequest(f"offsets {batch.first} to {batch.last} are in the wrong order")
        if batch.first < before:
            raise errors.InvalidRequest(f"offset {batch.first} is acknowledged out of order")
        if not batch.types:
            raise errors.InvalidRequest(
                f"the acknowledge types of offsets {batch.first} to {batch.last} are missing"
            )
        if len(batch.types) > 1 and len(batch.types) != batch.last - batch.first + 1:
            raise errors.InvalidRequest(
                f"{len(batch.types)} acknowledge types for {batch.last - batch.first + 1} offsets: send one, or one for each"
            )
        for number in batch.types:
            if number in IN_TRANSACTION and in_transaction:
                continue
            if not 0 <= number <= AcknowledgeType.RENEW or (number == AcknowledgeType.RENEW and not renewals):
                raise errors.InvalidRequest(f"acknowledge type {number} is not supported")
        before = batch.last
