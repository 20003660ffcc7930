"""The persister of share partitions: the seam between a partition's leader and the coordinators of
`__share_group_state`, which may be on other brokers."""

from __future__ import annotations

from typing import Protocol

from tidelog.groups.share.group_state import ShareKey, ShareState, StateWrite, TransactionMember


class SharePersister(Protocol):
    """Every method returns when its change is committed, and raises the protocol's error if the change is refused."""

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> None:
        """Sets the group's start offset (-1: as its settings say), and forgets all earlier state."""
        ...

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """The state; writes of leaders with an older epoch are refused from now on."""
        ...

    async def write(self, key: ShareKey, update: StateWrite) -> None: ...

    async def join(self, key: ShareKey, update: StateWrite, transaction: TransactionMember) -> None:
        """Writes batches that count when the transaction commits."""
        ...

    async def delete(self, key: ShareKey) -> None: ...

    async def summary(self, key: ShareKey) -> ShareState | None:
        """The state; None if there is none."""
        ...
