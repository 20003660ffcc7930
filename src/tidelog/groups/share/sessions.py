"""Share sessions: a member sends its partitions once, then only changes; the session epoch keeps requests in order.

Pure.  The number of sessions is bounded.  A session belongs to the connection that began it: when the connection closes,
or the member ends the session, the member's acquired records are released."""

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
        """The session's partitions, rotated with each request, so that a busy partition does not starve the others."""
        parts = list(self.parts)
        at = self.epoch % len(parts) if parts else 0
        return parts[at:] + parts[:at]


class ShareSessions:
    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_peer: dict[str, set[SessionKey]] = {}
        self._per_group: dict[str, int] = {}
        self._attached: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_group(self, group: str) -> bool:
        return group in self._per_group or group in self._attached

    def attached(self, group: str) -> None:
        """A reader of this process, which has no requests and no epochs."""
        self._attached[group] = self._attached.get(group, 0) + 1

    def detached(self, group: str) -> None:
        self._attached[group] -= 1
        if not self._attached[group]:
            del self._attached[group]

    def begin(
        self, key: SessionKey, peer: str, parts: Iterable[SharePartitionId], sessions_max: int
    ) -> ShareSession:
        """Begins a session, which replaces an earlier one of the member."""
        self.end(key)
        if len(self._sessions) >= sessions_max:
            raise errors.ShareSessionLimitReached(
                f"this broker has {sessions_max} share sessions, as many as group.share.max.share.sessions allows"
            )
        session = self._sessions[key] = ShareSession(key, peer)
        self._by_peer.setdefault(peer, set()).add(key)
        self._per_group[key[0]] = self._per_group.get(key[0], 0) + 1
        session.parts.update(dict.fromkeys(parts))
        return session

    def go_on(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session, for its next request; raises if the request's epoch is not the next one."""
        session = self._sessions.get(key)
        if session is None:
            raise errors.ShareSessionNotFound(
                f"member {key[1]} of group {key[0]} has no share session: begin one with epoch 0"
            )
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
