"""Messages of a queue: published, taken as a worker takes them, purged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.cli.groups.queues.listing import described
from tidelog.cli.session import CommandSession

if TYPE_CHECKING:
    from tidelog.aio import Record, ShareConsumer

PURGED_AT_ONCE = 500
PURGE_WAIT_MS = 1_000


def _connection(session: CommandSession) -> dict[str, Any]:
    return {
        "bootstrap_servers": session.bootstrap,
        "client_id": "tidelog-cli",
        "request_timeout_ms": session.timeout_ms,
        "connect_timeout_ms": session.connect_timeout_ms,
        "security": session.security,
    }


async def publish(
    session: CommandSession,
    name: str,
    key: str | None,
    value: bytes,
    headers: dict[str, str],
    partition: int | None,
) -> tuple[int, int]:
    from tidelog.aio import Producer

    async with Producer(**_connection(session)) as producer:
        sent = await producer.send(
            name,
            value,
            key=None if key is None else key.encode(),
            headers=[(header, text.encode()) for header, text in headers.items()],
            partition=partition,
        )
        stored = await sent
    return stored.partition, stored.offset


async def _consumer(session: CommandSession, name: str, group: str | None) -> ShareConsumer:
    from tidelog.aio import ShareConsumer

    chosen = group or (await described(session, name)).groups[0]
    return ShareConsumer(name, group_id=chosen, acknowledgement_mode="explicit", **_connection(session))


async def take(
    session: CommandSession, name: str, group: str | None, count: int, wait_ms: int, how: Any
) -> list[Record]:
    taken: list[Record] = []
    async with await _consumer(session, name, group) as consumer:
        while len(taken) < count and (
            records := await consumer.poll(wait_ms, max_records=count - len(taken))
        ):
            for record in records:
                consumer.acknowledge(record, how)
            taken += records
            if how == "release":
                break  # the same ones would come again
        await consumer.commit()
    return taken


async def purge(session: CommandSession, name: str, group: str | None) -> tuple[str, int]:
    """The group, and how many messages are gone."""
    chosen = group or (await described(session, name)).groups[0]
    purged = 0
    async with await _consumer(session, name, chosen) as consumer:
        while records := await consumer.poll(PURGE_WAIT_MS, max_records=PURGED_AT_ONCE):
            for record in records:
                consumer.acknowledge(record)
            purged += len(records)
        await consumer.commit()
    return chosen, purged
