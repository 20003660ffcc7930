"""A worker on a queue whose acknowledgements join the transaction of what it writes: as a process of its own, so that it can
be killed at any point.

    python -m tests.conformance.queue_worker NAME BOOTSTRAP QUEUE TARGET

A line on the standard output for every transaction that it has committed.  It never ends by itself, and goes on after any
error that says that the transaction must be aborted."""

from __future__ import annotations

import asyncio
import sys

from tidelog import errors
from tidelog.aio import Producer, Record, ShareConsumer

TOGETHER = 7
TRANSACTION_MS = 3_000


async def work(name: str, bootstrap: str, queue: str, target: str) -> None:
    while True:
        try:
            async with (
                Producer(
                    bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=TRANSACTION_MS
                ) as producer,
                ShareConsumer(
                    queue, group_id=queue, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
                ) as consumer,
            ):
                while True:
                    records = await consumer.poll(500, max_records=TOGETHER)
                    if records:
                        await transform(producer, consumer, records, target)
                        print(len(records), flush=True)
        except errors.TidelogError as problem:
            print(f"again: {type(problem).__name__} {problem}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.1)


async def transform(producer: Producer, consumer: ShareConsumer, records: list[Record], target: str) -> None:
    await producer.begin_transaction()
    for record in records:
        await producer.send(target, b"seen " + (record.value or b""))
    await producer.send_acknowledgements_to_transaction(records, consumer)
    await producer.commit_transaction()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
