"""The topics of a service: its queue, and its replies."""

from __future__ import annotations

from tidelog import errors
from tidelog.client.admin.admin import Admin
from tidelog.client.admin.topics import NewTopic
from tidelog.client.security.security import Security

REPLY_PARTITIONS = 8
REPLIES_KEPT_MS = 600_000


def replies_of(queue: str) -> str:
    return f"{queue}.replies"


async def ensure_topics(bootstrap_servers: str, security: Security | None, queue: str) -> None:
    """Creates those that are missing."""
    wanted = (
        NewTopic(queue, configs={"queue.groups": queue}),
        NewTopic(replies_of(queue), REPLY_PARTITIONS, configs={"retention.ms": str(REPLIES_KEPT_MS)}),
    )
    async with Admin(bootstrap_servers=bootstrap_servers, security=security) as admin:
        present = {topic.name for topic in await admin.list_topics()}
        for topic in wanted:
            if topic.name not in present:
                try:
                    await admin.create_topics([topic])
                except errors.TopicAlreadyExists:
                    continue  # another client of the service was faster
