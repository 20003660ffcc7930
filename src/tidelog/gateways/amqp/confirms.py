"""Publisher confirms of a channel: which messages are settled, and what the client is told of them.  Pure."""

from __future__ import annotations

from typing import NamedTuple


class Confirmation(NamedTuple):
    tag: int
    multiple: bool
    ok: bool


class Confirms:
    """Tags count from 1.  A message is settled when every queue that it went to has it, or when one has failed."""

    def __init__(self) -> None:
        self._next = 1
        self._waiting: dict[int, int] = {}  # by tag, in order: the queues that have not answered
        self._failed: set[int] = set()

    @property
    def outstanding(self) -> int:
        return len(self._waiting)

    def published(self, queues: int) -> int:
        """The tag of a message that goes to so many queues; it is settled if it goes to none."""
        tag, self._next = self._next, self._next + 1
        self._waiting[tag] = queues
        return tag

    def stored(self, tag: int, ok: bool) -> None:
        self._waiting[tag] -= 1
        if not ok:
            self._failed.add(tag)

    def take(self) -> list[Confirmation]:
        """What is settled and was not told yet: one for all that are settled in order, then single ones."""
        confirmations = []
        last, count = 0, 0
        for tag, queues in self._waiting.items():
            if queues or tag in self._failed:
                break
            last, count = tag, count + 1
        if count:
            confirmations.append(Confirmation(last, count > 1, True))
        settled = [tag for tag, queues in self._waiting.items() if not queues]
        for tag in settled:
            del self._waiting[tag]
            if tag in self._failed:
                self._failed.discard(tag)
                confirmations.append(Confirmation(tag, False, False))
            elif tag > last:
                confirmations.append(Confirmation(tag, False, True))
        return confirmations
