"""Where the leader of a partition keeps what its share groups have read: the seam between it and the coordinators of
`__share_group_state`, which may be on other brokers."""

from __future__ import annotations

from typing import Protocol

from tidelog.groups.share.group_state import ShareKey, ShareState, StateWrite


class SharePersister(Protocol):
    """Everything returns when it is committed, and raises the protocol's error when it was refused."""

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> None:
        """The group begins at `start` (-1: where its settings say), and whatever was known is forgotten."""
        ...

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Writes of leaders of older epochs are refused from here on."""
        ...

    async def write(self, key: ShareKey, what: StateWrite) -> None: ...

    async def delete(self, key: ShareKey) -> None: ...

    async def summary(self, key: ShareKey) -> ShareState | None:
        """None: nothing is known of it."""
        ...
