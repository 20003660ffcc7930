"""Logs whose records are elsewhere: a first read is told that they are not here yet, a later one gets bytes in memory."""

from __future__ import annotations

import asyncio

import pytest

from tidelog._speed.log.batch import walk
from tidelog.storage.fetched_log import NotHereYet, RecordBytes, Records
from tidelog.storage.log import Log

ARRIVES_S = 0.3


class RecordsElsewhere:
    """In the place of `Log.fetch`, for all logs, until the test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, arrives_s: float = ARRIVES_S) -> None:
        self.waited = 0
        """How often a reader was told to wait."""
        self._arrives_s = arrives_s
        self._arrived: set[tuple[object, int]] = set()
        fetch = Log.fetch

        def fetch_elsewhere(
            log: Log, offset: int, bytes_max: int, end: int, whole_batch: bool = True
        ) -> Records | NotHereYet | None:
            records = fetch(log, offset, bytes_max, end, whole_batch)
            assert not isinstance(records, NotHereYet)
            if records is None:
                return None
            if (log.name, offset) not in self._arrived:
                return self._on_the_way((log.name, offset))
            data = records.read()
            return RecordBytes(data, walk(data)[-1].last_offset + 1)

        monkeypatch.setattr(Log, "fetch", fetch_elsewhere)

    def _on_the_way(self, place: tuple[object, int]) -> NotHereYet:
        self.waited += 1
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def arrive() -> None:
            self._arrived.add(place)
            ready.set_result(None)

        loop.call_later(self._arrives_s, arrive)
        return NotHereYet(ready)
