"""Decompresses a producer's batch: validates it by its topic's rules, and lists the schemas that its records name.

Large ones are opened on threads of their own, so that decompression never holds up the event loop.  There are few, and
each has one batch at a time: together they take no more than that many times `Rules.expanded_bytes_max`.  Called by
`handlers.produce.decompressing`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from tidelog import errors
from tidelog._speed.log.records import schema_ids
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, ExpandsFurther
from tidelog.replication.acceptance import RECORDS_TOLD_MAX, Accepted, Rules, accept

if TYPE_CHECKING:
    from typing_extensions import Buffer

THREADS = 2
SCHEMAS_MAX = 1000  # that one batch may name


class NamedSchemas(NamedTuple):
    """What the keys, or values, of a batch name."""

    of_keys: bool
    ids: dict[int, list[int]]
    """With the places of records that name them, the first ones."""
    bare: list[int]
    """Places of records that name none."""


class OpenedBatch(NamedTuple):
    verdict: Accepted | errors.TidelogError
    expanded_bytes: int
    schemas: list[NamedSchemas]


def open_batch(
    data: memoryview,
    rules: Rules,
    of_keys: Sequence[bool],
    now_ms: int,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> OpenedBatch | None:
    """`of_keys`: whose schemas are wanted, keys' (true) or values'.  None: the records expand to more than `bytes_max`."""
    expanded_bytes = 0
    schemas = []

    def look(records: Buffer, count: int) -> None:
        nonlocal expanded_bytes
        expanded_bytes = memoryview(records).nbytes
        for keys in of_keys:
            named = schema_ids(records, count, keys, SCHEMAS_MAX, RECORDS_TOLD_MAX)
            if named is None:
                raise errors.InvalidRecord(f"more than {SCHEMAS_MAX} schema ids in one batch are too many")
            schemas.append(NamedSchemas(keys, *named))

    verdict: Accepted | errors.TidelogError
    try:
        verdict = accept(data, rules, now_ms, bytes_max, look)
    except ExpandsFurther:
        return None
    except errors.TidelogError as problem:
        verdict = problem
    return OpenedBatch(verdict, expanded_bytes, schemas)


class Opening:
    """The threads; started with the first batch that needs one."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self.batches = 0
        self.expanded_bytes = 0

    async def open(self, data: memoryview, rules: Rules, of_keys: Sequence[bool], now_ms: int) -> OpenedBatch:
        """`data` must not change meanwhile."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="opening")
        opened = await asyncio.get_running_loop().run_in_executor(
            self._threads, open_batch, data, rules, of_keys, now_ms
        )
        assert opened is not None, "no topic allows more"
        self.batches += 1
        self.expanded_bytes += opened.expanded_bytes
        return opened
