"""Which batches of a segment get entries in its indexes."""

SEGMENT_OFFSETS_MAX: int
"""An offset in a segment is at most so far from the segment's base."""

class IndexInterval:
    """Counts the bytes of one segment since its last index entry.  Of each batch: `indexed` if it is `due` and got an
    entry, then `passed`."""

    interval_bytes: int
    since: int
    def __init__(self, interval_bytes: int, since: int = 0) -> None: ...
    @property
    def due(self) -> bool:
        """The next batch gets an entry."""

    def indexed(self) -> None:
        """The next batch has an entry."""

    def passed(self, size: int) -> None:
        """A batch of so many bytes."""
