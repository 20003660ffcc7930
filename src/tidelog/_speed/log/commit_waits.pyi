"""What waits for the high watermark of a partition to pass its records, in the order in which it came."""

import asyncio
from collections.abc import Sequence

class CommitWait:
    end: int

class CommitWaits:
    waiting: Sequence[CommitWait]
    def wait(self, end: int) -> asyncio.Future[None]:
        """Done when all records below `end` are committed; fails when this broker has no say in that any more."""

    def committed(self, high_watermark: int) -> None: ...
    def failed(self, problem: Exception) -> None: ...
