"""Share sessions: a member names its partitions once, then only what changes; its epoch keeps requests in order.

Pure.  The number of sessions is bounded.  A session belongs to the connection it was begun on: when that closes, or the
member says that it is done, what it had acquired goes back."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tidelog import errors

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_LAST = (1 << 31) - 1

SessionKey = tuple[str, str]  # group, member
SharePartitionId = tuple[UUID, int]


class ShareSession:
    __slots__ = ("epoch", "key", "parts", "peer")

    def __init__(self, key: SessionKey, peer: str) -> None:
        self.key = key
        self.peer = peer
        self.epoch = 1
        self.parts: dict[SharePartitionId, None] = {}

    def in_turn(self) -> list[SharePartitionId]:
        """Its partitions, each time from another one on: a busy one must not starve the others."""
        parts = list(self.parts)
        at = self.epoch % len(parts) if parts else 0
        return parts[at:] + parts[:at]


class ShareSessions:
    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_peer: dict[str, set[SessionKey]] = {}
        self._per_group: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_group(self, group: str) -> bool:
        return group in self._per_group

    def begin(
        self, key: SessionKey, peer: str, parts: Iterable[SharePartitionId], sessions_max: int
    ) -> ShareSession:
        """A session that the member had before is replaced."""
        self.end(key)
        if len(self._sessions) >= sessions_max:
            raise errors.ShareSessionLimitReached(f"there are {sessions_max} share sessions already")
        session = self._sessions[key] = ShareSession(key, peer)
        self._by_peer.setdefault(peer, set()).add(key)
        self._per_group[key[0]] = self._per_group.get(key[0], 0) + 1
        session.parts.update(dict.fromkeys(parts))
        return session

    def go_on(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session, for a request that is the next one in it."""
        session = self._sessions.get(key)
        if session is None:
            raise errors.ShareSessionNotFound(f"member {key[1]} of {key[0]} has no share session (any more)")
        if session.epoch != epoch:
            raise errors.InvalidShareSessionEpoch(
                f"the share session of {key[1]} is at epoch {session.epoch}, not {epoch}"
            )
        session.epoch = 1 if session.epoch == EPOCH_LAST else session.epoch + 1
        return session

    def end(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        own = self._by_peer[session.peer]
        own.discard(key)
        if not own:
            del self._by_peer[session.peer]
        self._per_group[key[0]] -= 1
        if not self._per_group[key[0]]:
            del self._per_group[key[0]]
        return session

    def of_peer(self, peer: str) -> list[SessionKey]:
        return list(self._by_peer.get(peer, ()))
