"""Bounds the open files: descriptors and mappings of segments, shared by all logs of a broker.

An idle segment holds none; a busy one holds its own and does not come here on every use, it only marks itself
`used`. A file released while a slice of it is on its way out stays readable: the slice holds the `File`,
which closes when the last reference goes.  Only the event loop's thread comes here; recovery brings an
`OpenFiles` of its own.
"""

from __future__ import annotations

from typing import Protocol


class Handle(Protocol):
    """Something that holds one descriptor and can do without it."""

    used: bool

    def release(self) -> None:
        """Let go of the descriptor; the next use opens it again.  Must not call back."""
        ...


class OpenFiles:
    """Second chance: the oldest handle that was not used since it was last looked at goes first."""

    __slots__ = ("_held", "limit")

    def __init__(self, limit: int) -> None:
        if limit < 8:
            raise ValueError(f"cannot work with {limit} open files: allow at least 8")
        self.limit = limit
        self._held: dict[Handle, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def opened(self, handle: Handle) -> None:
        """`handle` holds a descriptor now; others are released until the bound holds again."""
        handle.used = False
        held = self._held
        held[handle] = None
        while len(held) > self.limit:
            oldest = next(iter(held))
            del held[oldest]
            if oldest.used or oldest is handle:
                oldest.used = False
                held[oldest] = None
            else:
                oldest.release()

    def closed(self, handle: Handle) -> None:
        self._held.pop(handle, None)

    def release_idle(self) -> int:
        """Releases what was not used since the last call; how many that were."""
        idle = [handle for handle in self._held if not handle.used]
        for handle in idle:
            del self._held[handle]
            handle.release()
        for handle in self._held:
            handle.used = False
        return len(idle)
