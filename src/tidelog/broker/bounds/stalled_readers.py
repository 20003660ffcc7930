"""Clients that do not take their answers: which connections are closed, and why.  Looked at once a second, and only while
there are answers that nobody has taken.

A connection that has taken nothing for `tidelog.connection.stalled.ms` is closed.  While all answers together take more
than `queued.max.request.bytes`, those go first that have been waiting for the longest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.broker.connection import ClientConnection


class StalledReaders:
    def __init__(self) -> None:
        self._seen: dict[
            ClientConnection, tuple[int, float]
        ] = {}  # what it had taken, and since when it has taken no more

    def to_close(
        self, connections: Iterable[ClientConnection], now_s: float, stalled_ms: int, too_much: int
    ) -> Iterator[tuple[ClientConnection, str, str]]:
        """(connection, the bound, why).  `too_much`: bytes by which answers exceed their bound."""
        before, self._seen = self._seen, {}
        for connection in connections:
            if connection.unsent_bytes:
                taken, since_s = before.get(connection, (-1, now_s))
                since_s = since_s if taken == connection.bytes_out else now_s
                self._seen[connection] = connection.bytes_out, since_s
        for connection, (_, since_s) in sorted(self._seen.items(), key=_longest_first):
            size = connection.unsent_bytes
            if too_much > 0:
                too_much -= size
                bound = "queued.max.request.bytes"
                why = f"answers take all the memory they may, and it has not taken {size} bytes"
            elif now_s - since_s >= stalled_ms / 1000:
                bound = "tidelog.connection.stalled.ms"
                why = f"it has taken nothing of {size} bytes for {stalled_ms} ms (tidelog.connection.stalled.ms)"
            else:
                continue
            del self._seen[connection]
            yield connection, bound, why


def _longest_first(entry: tuple[ClientConnection, tuple[int, float]]) -> tuple[float, int]:
    connection, (_, since_s) = entry
    return since_s, -connection.unsent_bytes
