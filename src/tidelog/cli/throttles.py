"""Limits on how fast moves copy: settings of the brokers and topics concerned, as Kafka's own tool sets them.

`partitions reassign` sets them before moves begin and takes them back when none is under way any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.aio import Admin, ConfigResource

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class Copy(NamedTuple):
    """A partition of which `adding` get copies; `holding` have it now, and any of them may lead it."""

    topic: str
    partition: int
    holding: tuple[int, ...]
    adding: tuple[int, ...]


class Removed(NamedTuple):
    brokers: list[int]
    topics: list[str]


def replicas(copies: Iterable[Copy]) -> dict[str, dict[str, str]]:
    """Of each topic, its lists of throttled replicas."""
    lists: dict[str, tuple[list[str], list[str]]] = {}
    for one in copies:
        leaders, followers = lists.setdefault(one.topic, ([], []))
        leaders += [f"{one.partition}:{node}" for node in one.holding]
        followers += [f"{one.partition}:{node}" for node in one.adding]
    return {
        topic: {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
        for topic, (leaders, followers) in lists.items()
    }


async def throttle(admin: Admin, copies: Iterable[Copy], rate: int) -> None:
    """`rate` in bytes a second, for each broker, in each direction."""
    from tidelog.aio import ConfigResource

    wanted = [one for one in copies if one.adding]
    running = (await admin.describe_cluster()).nodes
    nodes = {node for one in wanted for node in (*one.holding, *one.adding)}.intersection(running)
    changes: dict[ConfigResource, Mapping[str, str | None]] = {
        ConfigResource("broker", str(node)): dict.fromkeys(RATES, str(rate)) for node in sorted(nodes)
    }
    for topic, lists in replicas(wanted).items():
        changes[ConfigResource("topic", topic)] = dict(lists)
    await admin.alter_configs(changes)


async def remove(admin: Admin) -> Removed:
    """Every limit that was set on a broker of its own or on a topic; which ones had any."""
    from tidelog.aio import ConfigResource

    running = (await admin.describe_cluster()).nodes
    brokers = [ConfigResource("broker", str(node)) for node in sorted(running)]
    topics = [ConfigResource("topic", topic.name) for topic in await admin.list_topics(internal=True)]
    slow = await _with_own(admin, brokers, RATES)
    listed = await _with_own(admin, topics, (LEADERS, FOLLOWERS))
    await admin.alter_configs({**slow, **listed})
    return Removed([int(one.name) for one in slow], [one.name for one in listed])


async def _with_own(
    admin: Admin, resources: list[ConfigResource], names: tuple[str, ...]
) -> dict[ConfigResource, Mapping[str, str | None]]:
    """Those that have settings of these names of their own, with what takes them back."""
    from tidelog.client.configs import ConfigSource

    found: dict[ConfigResource, Mapping[str, str | None]] = {}
    if not resources:
        return found
    own = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_TOPIC)
    for resource, entries in (await admin.describe_configs(resources, names)).items():
        changed: dict[str, str | None] = {one.name: None for one in entries if one.source in own}
        if changed:
            found[resource] = changed
    return found
