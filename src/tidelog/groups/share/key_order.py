"""Order by key: at most one member holds records of a key at a time.

Known are the keys of records in the share partition's window, as far as they were read; records without a key have no
order.  Pure."""

from __future__ import annotations


class KeyOrder:
    def __init__(self) -> None:
        self._keys: dict[int, bytes] = {}
        self._held: dict[bytes, dict[int, str]] = {}
        """By key: the offsets that are acquired, and by whom."""

    def read(self, offset: int, key: bytes | None) -> None:
        if key is not None:
            self._keys[offset] = key

    def is_blocked(self, offset: int, member: str) -> bool:
        """Whether another member holds records of the same key."""
        key = self._keys.get(offset)
        holders = self._held.get(key) if key is not None else None
        return holders is not None and any(holder != member for holder in holders.values())

    def acquired(self, offset: int, member: str) -> None:
        key = self._keys.get(offset)
        if key is not None:
            self._held.setdefault(key, {})[offset] = member

    def left(self, first: int, last: int) -> None:
        """Nobody holds these offsets any more."""
        for offset in range(first, last + 1):
            key = self._keys.get(offset)
            holders = self._held.get(key) if key is not None else None
            if key is not None and holders is not None:
                holders.pop(offset, None)
                if not holders:
                    del self._held[key]

    def after(self, first: int, last: int) -> list[int]:
        """Acquired offsets of the same keys behind these ones."""
        keys = {self._keys[offset] for offset in range(first, last + 1) if offset in self._keys}
        return sorted(offset for key in keys for offset in self._held.get(key, ()) if offset > last)

    def started(self, offset: int) -> None:
        """Everything below is finished."""
        for finished in [below for below in self._keys if below < offset]:
            self.left(finished, finished)
            del self._keys[finished]
