"""Incremental fetch sessions: a client names its partitions once, then only what changes, and is told only news.

Pure: session ids are passed in, and should be hard to guess, so that one client cannot disturb another's.
The number of sessions is bounded; a new one takes the place of one that was unused for long."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog import errors
from tidelog._speed.wire.fetch_frames import FetchAnswer, FetchAsk

NO_SESSION = 0
FULL_FETCH = 0
NO_MORE_SESSION = -1
EPOCH_LAST = (1 << 31) - 1
EVICTION_MS_MIN = 120_000

Key = tuple[str | bytes, int]
# (current leader epoch, offset, last fetched epoch, log start, bytes max)
Wanted = tuple[int, int, int, int, int]


class FetchSession:
    __slots__ = ("by_id", "epoch", "session_id", "told", "used_ms", "wanted")

    def __init__(self, session_id: int, by_id: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.used_ms = now_ms
        self.wanted: dict[Key, Wanted] = {}
        self.told: dict[Key, tuple[int, int]] = {}  # what is committed, and where the log starts

    def update(self, ask: FetchAsk) -> None:
        for topic, parts in ask.topics:
            for index, *wanted in parts:
                self.wanted[topic, index] = tuple(wanted)  # type: ignore[assignment]
                if ask.replica_id >= 0:
                    # A follower drops answers of an epoch that has passed: what it was told it may not know.
                    self.told.pop((topic, index), None)
        for topic, indexes in ask.forgotten:
            for index in indexes:
                self.wanted.pop((topic, index), None)
                self.told.pop((topic, index), None)

    def news(
        self, answers: Iterable[tuple[str | bytes, FetchAnswer]]
    ) -> list[tuple[str | bytes, FetchAnswer]]:
        """Of the answers for all partitions, those the client does not know yet.  Partitions that gave records go to
        the end of the line, so that a busy one cannot starve the others when the answer is full."""
        news = []
        for topic, answer in answers:
            key = (topic, answer.index)
            seen = (answer.high_watermark, answer.log_start)
            records = answer.records
            if answer.error or answer.diverging is not None:
                self.told.pop(key, None)
            elif records is None and answer.preferred_replica < 0 and self.told.get(key) == seen:
                continue
            else:
                self.told[key] = seen
            news.append((topic, answer))
            if records is not None and key in self.wanted:
                self.wanted[key] = self.wanted.pop(key)
        return news


class FetchSessions:
    def __init__(self, slots_max: int, new_id: Callable[[], int]) -> None:
        """`new_id` gives numbers from 1 to 2**31 - 1."""
        self._slots_max = slots_max
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, ask: FetchAsk, by_id: bool, now_ms: int) -> FetchSession | None:
        """The session that a request belongs to, brought up to date by it; None for a fetch outside of any."""
        if ask.session_epoch in (FULL_FETCH, NO_MORE_SESSION):
            self._sessions.pop(ask.session_id, None)
            if ask.session_epoch == NO_MORE_SESSION:
                return None
            return self._create(ask, by_id, now_ms)
        session = self._sessions.get(ask.session_id)
        if session is None:
            raise errors.FetchSessionIdNotFound(f"fetch session {ask.session_id} is not known (any more)")
        if session.epoch != ask.session_epoch:
            raise errors.InvalidFetchSessionEpoch(
                f"fetch session {ask.session_id} is at epoch {session.epoch}, not {ask.session_epoch}"
            )
        if session.by_id != by_id:
            raise errors.FetchSessionTopicIdError(
                f"fetch session {ask.session_id} was begun with topic {'ids' if session.by_id else 'names'}"
            )
        session.update(ask)
        session.epoch = 1 if session.epoch == EPOCH_LAST else session.epoch + 1
        session.used_ms = now_ms
        # Keep the sessions in the order of their last use: the first one is the one to evict.
        self._sessions[ask.session_id] = self._sessions.pop(ask.session_id)
        return session

    def _create(self, ask: FetchAsk, by_id: bool, now_ms: int) -> FetchSession | None:
        if not ask.topics or not self._make_room(now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, by_id, now_ms)
        session.update(ask)
        self._sessions[session_id] = session
        return session

    def _make_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots_max:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms < EVICTION_MS_MIN:
            return False
        del self._sessions[oldest.session_id]
        self.evicted += 1
        return True
