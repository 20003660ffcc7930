"""One ShareFetch of a member of a share group: waits for records, acquires and reads them.

Records are acquired only when the answer can be sent, so a member that disconnects while it waits holds none.  There is
no await between finding, acquiring and reading records: no other member can acquire the same ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.share.expiry import expiry_of
from tidelog.groups.share.in_flight import NOBODY
from tidelog.groups.share.led_partition import LedSharePartition
from tidelog.groups.share.log_window import AbortedRange, window
from tidelog.groups.share.partition import AcquiredRange, AcquireRequest, ShareTerms
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.share.queue_limits import trim
from tidelog.groups.share.sessions import SharePartitionId
from tidelog.replication.delayed_fetch import FetchWait
from tidelog.storage.fetched_log import NotHereYet, Records, Slice

READ_BYTES_MIN = 16 << 10
READ_BYTES_A_RECORD = 4 << 10
READ_BYTES_MAX = 1 << 20


class ShareFetchLimits(NamedTuple):
    """`strict`: not one record more than `records_max`.  `keeps`: locks last as long as the member's session."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    batch_records_max: int
    strict: bool
    keeps: bool = False


def answer_late(waits: asyncio.Future[None]) -> bool:
    return False


class ShareFetchedRecords(NamedTuple):
    records: bytes
    acquired: list[AcquiredRange]


class ReadableRecords(NamedTuple):
    """The position of records that a member can read; they are not acquired yet."""

    led: LedSharePartition
    terms: ShareTerms
    offset: int
    part: Records


Results = dict[SharePartitionId, ShareFetchedRecords | errors.TidelogError]


def by_priority(leds: list[LedSharePartition]) -> list[LedSharePartition]:
    """Where partitions are priorities, the highest one comes first; all others stay in turn."""
    if not any(led.partition.log.config.queue_priorities for led in leds):
        return leds
    return sorted(
        leds, key=lambda led: -led.partition.index if led.partition.log.config.queue_priorities else 0
    )


class ShareFetch:
    def __init__(
        self,
        shares: SharePartitions,
        group: str,
        member: str,
        limits: ShareFetchLimits,
        hold: Callable[[asyncio.Future[None]], bool] = answer_late,
    ) -> None:
        """`hold` completes a future when the member's connection has another request: acknowledgements do not wait until
        there are records."""
        self._shares = shares
        self._group = group
        self._member = member
        self._limits = limits
        # A fetch of few records reads few bytes.
        self._bytes_max = min(READ_BYTES_MIN + limits.records_max * READ_BYTES_A_RECORD, READ_BYTES_MAX)
        self._results: Results = {}
        self._on_their_way: list[asyncio.Future[None]] = []
        self._hold = hold
        self._next_request: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, parts: Sequence[SharePartitionId]) -> Results:
        """The records or the error of every partition that has any."""
        leds = by_priority(await self._open(parts))
        clock, limits = self._shares.clock, self._limits
        deadline_ms = clock.monotonic_ms() + limits.wait_ms
        if limits.wait_ms:
            self._hold(self._next_request)
        while True:
            readable = self._look(leds)
            size = sum(records.part.size for records in readable)
            # An error must be answered now, and so must everything when the broker shuts down.
            hurried = self._shares.draining or self._next_request.done()
            last = clock.monotonic_ms() >= deadline_ms or bool(self._results) or hurried
            if last or (readable and size >= limits.bytes_min):
                self._take(readable)
                if self._results or last:
                    return self._results
                continue  # the batches held no records for consumers; more may follow them
            missing = max(limits.bytes_min - size, 1)
            await self._wait(leds, missing, (deadline_ms - clock.monotonic_ms()) / 1000)

    async def _open(self, parts: Sequence[SharePartitionId]) -> list[LedSharePartition]:
        leds = []
        for part in parts:
            try:
                leds.append(await self._shares.open(self._group, part))
            except errors.TidelogError as problem:
                self._results[part] = problem
        return leds

    def _look(self, leds: Sequence[LedSharePartition]) -> list[ReadableRecords]:
        left = self._limits.bytes_max
        readable: list[ReadableRecords] = []
        self._on_their_way.clear()
        for led in leds:
            try:
                records = self._look_at(led, left, not readable)
            except errors.TidelogError as problem:
                self._results[led.key.topic_id, led.key.partition] = problem
                continue
            if records is not None:
                readable.append(records)
                left -= records.part.size
        return readable

    def _look_at(self, led: LedSharePartition, left: int, first: bool) -> ReadableRecords | None:
        if not led.current:
            raise errors.NotLeaderOrFollower(f"this broker no longer leads share partition {led.key}")
        config = led.config()
        log = led.partition.log
        led.state.log_started(log.start)
        trim(led)
        terms = led.terms()
        if not led.serves(self._member) or (left <= 0 and not first):
            return None
        member = self._member if terms.by_key else NOBODY
        if not led.state.has_room(terms, member):
            return None
        offset = led.state.next_offset(member)
        bound = led.partition.readable_end(config.share_isolation_level == "read_committed")
        if offset >= bound:
            return None
        part = log.fetch(offset, max(min(left, self._bytes_max), 0), bound, first)
        if isinstance(part, NotHereYet):
            self._on_their_way.append(part.ready)
            return None
        return None if part is None else ReadableRecords(led, terms, offset, part)

    def _take(self, readable: Sequence[ReadableRecords]) -> None:
        left = self._limits.records_max
        for records in readable:
            if left <= 0:
                return
            led, limits = records.led, self._limits
            try:
                data = led.partition.log.read_bytes(records.part)
            except errors.KafkaStorageError as problem:
                self._results[led.key.topic_id, led.key.partition] = problem
                continue
            expiry = expiry_of(led.partition.log.config, self._shares.clock.now_ms(), records.terms.by_key)
            seen = window(data, records.offset, self._aborted(records), expiry)
            if seen.damaged is not None:
                if isinstance(records.part, Slice):
                    led.partition.log.suspect(seen.damaged)
                if not seen.headers:
                    self._results[led.key.topic_id, led.key.partition] = errors.CorruptMessage(
                        f"{led.partition.name} is damaged at offset {seen.damaged}: the bytes are being checked, try again"
                    )
                    continue
            wish = AcquireRequest(self._member, left, limits.batch_records_max, limits.strict, limits.keeps)
            grant = led.acquire(wish, seen.spans, records.terms)
            if grant.acquired:
                fetched = ShareFetchedRecords(seen.records(grant.acquired), grant.acquired)
                self._results[led.key.topic_id, led.key.partition] = fetched
                left -= sum(span.last - span.first + 1 for span in grant.acquired)

    def _aborted(self, records: ReadableRecords) -> list[AbortedRange]:
        if records.led.config().share_isolation_level != "read_committed":
            return []
        log = records.led.partition.log
        ranges = log.aborted(records.offset, records.led.partition.last_stable, records.part)
        return [AbortedRange(*aborted[:3]) for aborted in ranges]

    async def _wait(self, leds: Sequence[LedSharePartition], missing: int, seconds: float) -> None:
        wait = FetchWait(missing)
        for led in leds:
            led.waits[wait] = None
            if led.state.has_room(led.terms()):
                led.partition.fetch_waits[wait] = None
        on_their_way = tuple(self._on_their_way)

        def arrived(_: asyncio.Future[None]) -> None:
            wait.changed()

        for ready in on_their_way:
            ready.add_done_callback(arrived)
        try:
            await asyncio.wait(
                [wait.future, self._next_request],
                timeout=max(seconds, 0),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for ready in on_their_way:
                ready.remove_done_callback(arrived)
            for led in leds:
                led.waits.pop(wait, None)
                led.partition.fetch_waits.pop(wait, None)
            if not wait.future.done():
                wait.future.cancel()
