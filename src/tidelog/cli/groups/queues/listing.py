"""What queues there are, with what waits in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.session import CommandSession, Failure

if TYPE_CHECKING:
    from tidelog.aio import Admin

GROUPS = "queue.groups"
OWN = "queue."


class GroupLag(NamedTuple):
    """The messages of one partition that a group has not finished; None where nobody knows."""

    group: str
    partition: int
    start: int
    messages: int | None


class QueueListing(NamedTuple):
    name: str
    groups: tuple[str, ...]
    partitions: int
    settings: dict[str, str]
    """Those that make it a queue."""
    lag: tuple[GroupLag, ...]

    @property
    def messages(self) -> int | None:
        """Of the first group."""
        counts = [lag.messages for lag in self.lag if lag.group == self.groups[0]]
        if any(count is None for count in counts):
            return None
        return sum(count or 0 for count in counts)

    def as_json(self) -> dict[str, Any]:
        return {
            "queue": self.name,
            "groups": list(self.groups),
            "partitions": self.partitions,
            "messages": self.messages,
        }


async def create(
    session: CommandSession, name: str, partitions: int, settings: dict[str, str], group: dict[str, str]
) -> None:
    from tidelog.aio import ConfigResource, NewTopic

    async with session.admin() as admin:
        if group:
            await admin.alter_configs({ConfigResource("group", name): group})
        configs = {GROUPS: name, "retention.ms": "-1", **settings}
        await admin.create_topics([NewTopic(name, partitions, configs=configs)])


async def listed(session: CommandSession) -> list[QueueListing]:
    async with session.admin() as admin:
        topics = {topic.name: len(topic.partitions) for topic in await admin.list_topics()}
        return await _queues(admin, topics)


async def described(session: CommandSession, name: str) -> QueueListing:
    async with session.admin() as admin:
        topic = (await admin.describe_topics([name]))[name]
        queues = await _queues(admin, {name: len(topic.partitions)})
    if not queues:
        raise Failure(
            f"topic {name} is no queue: tidelog configs set topic {name} queue.groups=GROUP makes it the queue of a group"
        )
    return queues[0]


async def _queues(admin: Admin, topics: dict[str, int]) -> list[QueueListing]:
    from tidelog.aio import ConfigResource

    settings = await admin.describe_configs([ConfigResource("topic", name) for name in topics])
    queues = []
    for resource, entries in sorted(settings.items()):
        values = {
            entry.name: entry.value or ""
            for entry in entries
            if entry.name.startswith(OWN) and entry.value != entry.default
        }
        groups = tuple(group.strip() for group in values.get(GROUPS, "").split(",") if group.strip())
        if groups:
            lag = await _lag(admin, resource.name, topics[resource.name], groups)
            queues.append(QueueListing(resource.name, groups, topics[resource.name], values, lag))
    return queues


async def _lag(admin: Admin, topic: str, partitions: int, groups: tuple[str, ...]) -> tuple[GroupLag, ...]:
    """A group that nobody has used yet has all records before it."""
    from tidelog.aio import TopicPartition

    names = [TopicPartition(topic, index) for index in range(partitions)]
    starts = await admin.list_offsets(dict.fromkeys(names, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(names, "latest"))
    lag = []
    states = await admin.list_share_groups_offsets(groups)
    for group in groups:
        for name in names:
            state = states.get(group, {}).get(name)
            if state is None:
                start, count = starts[name].offset, ends[name].offset - starts[name].offset
                lag.append(GroupLag(group, name.partition, start, count))
            else:
                lag.append(GroupLag(group, name.partition, state.offset, state.lag))
    return tuple(lag)
