"""Replication throttles of moves: settings of brokers and topics, as Kafka's own tool sets them.

`partitions reassign` sets them before moves start, and removes them when none is ongoing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.cluster.disks import each

if TYPE_CHECKING:
    from tidelog.aio import Admin, ConfigResource

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class Copy(NamedTuple):
    """A partition that is copied to `adding`; the brokers `holding` have it now, and any of them may lead it."""

    topic: str
    partition: int
    holding: tuple[int, ...]
    adding: tuple[int, ...]


class Removed(NamedTuple):
    """`left`: brokers that may be throttled and do not answer.  As in Kafka, only a broker itself changes its settings."""

    brokers: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    left: tuple[int, ...] = ()


def replicas(copies: Iterable[Copy]) -> dict[str, dict[str, str]]:
    """The lists of throttled replicas, by topic."""
    lists: dict[str, tuple[list[str], list[str]]] = {}
    for copy in copies:
        leaders, followers = lists.setdefault(copy.topic, ([], []))
        leaders += [f"{copy.partition}:{node}" for node in copy.holding]
        followers += [f"{copy.partition}:{node}" for node in copy.adding]
    return {
        topic: {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
        for topic, (leaders, followers) in lists.items()
    }


async def throttle(admin: Admin, copies: Iterable[Copy], rate: int) -> None:
    """`rate` in bytes a second, for each broker, in each direction."""
    from tidelog.aio import ConfigResource

    wanted = [copy for copy in copies if copy.adding]
    running = (await admin.describe_cluster()).nodes
    nodes = {node for copy in wanted for node in (*copy.holding, *copy.adding)}.intersection(running)
    changes: dict[ConfigResource, Mapping[str, str | None]] = {
        ConfigResource("broker", str(node)): dict.fromkeys(RATES, str(rate)) for node in sorted(nodes)
    }
    for topic, lists in replicas(wanted).items():
        changes[ConfigResource("topic", topic)] = dict(lists)
    await admin.alter_configs(changes)


async def nothing_removed() -> Removed:
    return Removed()


async def remove(admin: Admin) -> Removed:
    """Removes every throttle of a broker or a topic, and returns which had one."""
    from tidelog.aio import ConfigResource

    topics = [ConfigResource("topic", topic.name) for topic in await admin.list_topics(internal=True)]
    listed = await _own(admin, topics, (LEADERS, FOLLOWERS))
    await admin.alter_configs({resource: dict.fromkeys(values) for resource, values in listed.items()})

    async def free(node: int) -> bool:
        resource = ConfigResource("broker", str(node))
        slow = await _own(admin, [resource], RATES)
        await admin.alter_configs({resource: dict.fromkeys(values) for resource, values in slow.items()})
        return bool(slow)

    freed, silent = await each(admin, free)
    limited = {node for values in listed.values() for text in values.values() for node in nodes_of(text)}
    return Removed(
        tuple(sorted(node for node, was_slow in freed.items() if was_slow)),
        tuple(sorted(resource.name for resource in listed)),
        tuple(sorted({*silent, *limited} - freed.keys())),
    )


def nodes_of(text: str) -> set[int]:
    """The brokers in a list of throttled replicas, such as `0:1,0:2`; none when it is `*`."""
    node_texts = (entry.partition(":")[2].strip() for entry in text.split(","))
    return {int(node) for node in node_texts if node.isdecimal()}


async def _own(
    admin: Admin, resources: list[ConfigResource], names: tuple[str, ...]
) -> dict[ConfigResource, dict[str, str]]:
    """The resources that override these settings, with the values."""
    from tidelog.client.admin.configs import ConfigSource

    own_values: dict[ConfigResource, dict[str, str]] = {}
    if not resources:
        return own_values
    own = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_TOPIC)
    for resource, entries in (await admin.describe_configs(resources, names)).items():
        values = {entry.name: entry.value or "" for entry in entries if entry.source in own}
        if values:
            own_values[resource] = values
    return own_values
