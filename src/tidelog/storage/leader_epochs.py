"""The leader epochs of a log: the start offset of each epoch (`leader-epoch-checkpoint`).

Pure; `log` keeps it up to date and on disk.

Epochs and their start offsets both ascend.  The file may lag behind: every batch has its epoch, so a scan of the log finds
the epochs above the recovery point again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class Epochs:
    __slots__ = ("_epochs", "_starts", "latest", "version")

    def __init__(self, starts: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH
        self.version = 0  # of what is known: larger after every change since it was read
        for epoch, start in starts:
            self.assign(epoch, start)
        self.version = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """`epoch` begins at `start`; false when it is known already.  What contradicts it goes: a log that
        was cut may go on with a newer epoch at an earlier offset."""
        if epoch < 0 or (self._epochs and epoch == self.latest and start >= self._starts[-1]):
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch
        self.version += 1
        return True

    def of(self, offset: int) -> int:
        """The epoch that `offset` was written in; UNDEFINED_EPOCH when it is from before the first one
        known."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else UNDEFINED_EPOCH

    def of_last_record(self, log_end: int) -> int:
        """Not the epoch of a leader that has appended nothing yet; the oldest one known where no record is left."""
        epoch = self.of(log_end - 1)
        return self._epochs[0] if epoch == UNDEFINED_EPOCH and self._epochs else epoch

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The answer to OffsetForLeaderEpoch: the largest epoch not above `epoch`, and where the next one
        began."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            # From before all that is left of the log: a follower must start over from where the log starts.
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def truncate_to(self, offset: int) -> None:
        """The log ends at `offset` now."""
        keep = bisect_left(self._starts, offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
            self.version += 1

    def advance_start(self, offset: int) -> None:
        """The log starts at `offset` now: the epoch it falls in starts there."""
        above = bisect_right(self._starts, offset)
        if above and (above > 1 or self._starts[0] != offset):
            del self._epochs[: above - 1], self._starts[: above - 1]
            self._starts[0] = offset
            self.version += 1

    def clear(self) -> None:
        self.version += bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()
        self.latest = UNDEFINED_EPOCH
