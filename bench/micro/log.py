"""What one append and one read of a log cost: python -m bench.micro.log [folder]"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from random import Random

from tidelog._speed.log.records import Record
from tidelog.clock import SystemClock
from tidelog.config import TopicConfig
from tidelog.record.builder import build_batch
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.types import TopicPartition

NOW_MS = 1_700_000_000_000


def batch_of(size: int) -> bytes:
    record = Record(0, NOW_MS, None, bytes(max(0, size - 75)), ())
    return build_batch([record], leader_epoch=0)


def microseconds(count: int, work: Callable[[int], object]) -> float:
    best = float("inf")
    for start in range(0, count * 3, count):
        began = time.perf_counter()
        for number in range(start, start + count):
            work(number)
        best = min(best, time.perf_counter() - began)
    return best / count * 1e6


def plain(volume: Volume, folder: str) -> None:
    for size in (100, 1000, 65_536):
        log = Log.open(volume, f"{folder}/plain{size}-0", TopicPartition(f"plain{size}", 0), TopicConfig())
        data = batch_of(size)
        count = 100_000 if size < 2000 else 2000

        def append(number: int, log: Log = log, data: bytes = data) -> None:
            log.append(data, number, number, NOW_MS, number, 0)

        print(f"append of {len(data)} bytes: {microseconds(count, append):.2f} us")
        # The bytes are never stamped here, so only reads at the tail find what they look for.
        tail = log.end - 1
        print(
            "  read at the tail: "
            f"{microseconds(20_000, lambda _, log=log, tail=tail: log.fetch(tail, 1 << 20, log.end)):.2f} us"
        )


def anywhere(volume: Volume, folder: str) -> None:
    from tidelog._speed.log.batch import stamp

    log = Log.open(volume, f"{folder}/read-0", TopicPartition("read", 0), TopicConfig(segment_bytes=16 << 20))
    data = bytearray(batch_of(100))
    for number in range(500_000):
        stamp(data, 0, number, 0)
        log.append(data, number, number, NOW_MS + number, number, 0)
    random = Random(1)
    wanted = [random.randrange(500_000) for _ in range(60_000)]
    cost = microseconds(20_000, lambda number: log.fetch(wanted[number], 1 << 20, log.end))
    print(f"read at a random offset of {len(log.segments)} segments: {cost:.2f} us")


async def synced(volume: Volume, folder: str, connections: int, each: int) -> None:
    log = Log.open(
        volume,
        f"{folder}/synced-{connections}",
        TopicPartition("synced", connections),
        TopicConfig(flush_messages=1),
    )
    data = batch_of(100)

    async def connection() -> None:
        for _ in range(each):
            offset = log.next
            done = log.append(data, offset, offset, NOW_MS, offset, 0)
            assert done is not None
            await done

    began = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(connections)))
    rate = connections * each / (time.perf_counter() - began)
    print(f"synced appends, {connections} connections: {rate:.0f}/s, {volume.flusher.groups} groups so far")


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        disk = SystemDisk()
        volume = Volume.of(folder, disk, SystemClock(), Random(1), OpenFiles(1000))
        plain(volume, folder)
        anywhere(volume, folder)
        for connections in (1, 10, 100):
            asyncio.run(synced(volume, folder, connections, 2000 // connections * 4))


if __name__ == "__main__":
    main()
