"""The contents of the brokers' disks.  Each broker is asked separately, so that a silent one hides only its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.client.admin.log_dirs import LogDir
    from tidelog.client.cluster.topology import Node

T = TypeVar("T")

PATIENCE_S = 5.0


class Disks(NamedTuple):
    """`silent`: registered brokers that do not answer."""

    folders: Mapping[int, list[LogDir]]
    silent: Mapping[int, Node]

    def bytes_of(self, node: int) -> int | None:
        folders = self.folders.get(node)
        return None if folders is None else sum(sum(folder.partitions.values()) for folder in folders)

    def replica_bytes(self, node: int, topic: str, partition: int) -> int | None:
        """None when the broker did not answer."""
        from tidelog.types import TopicPartition

        folders = self.folders.get(node)
        if folders is None:
            return None
        name = TopicPartition(topic, partition)
        return max((folder.partitions.get(name, 0) for folder in folders), default=0)

    def largest_bytes(self, nodes: Iterable[int], topic: str, partition: int) -> int | None:
        """The size of the largest known replica."""
        sizes = (self.replica_bytes(node, topic, partition) for node in nodes)
        return max((size for size in sizes if size is not None), default=None)


async def disks(admin: Admin, topics: Iterable[str] | None = None) -> Disks:
    wanted = None if topics is None else list(topics)

    async def ask(node: int) -> list[LogDir]:
        return (await admin.describe_log_dirs([node], wanted))[node]

    return Disks(*await each(admin, ask))


async def each(
    admin: Admin, ask: Callable[[int], Awaitable[T]]
) -> tuple[Mapping[int, T], Mapping[int, Node]]:
    """What the brokers answer, all asked at the same time, and those that do not within a few seconds.  Whatever else is
    to be asked comes first: a broker that hangs may have got the connection that the next question would take."""
    from tidelog.errors import TidelogError

    nodes = (await admin.describe_cluster()).nodes
    answers: dict[int, T] = {}

    async def ask_node(node: int) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answers[node] = await ask(node)
        except TimeoutError:
            pass
        except TidelogError as problem:
            if not problem.retriable:
                raise

    await asyncio.gather(*map(ask_node, nodes))
    return answers, {node: address for node, address in sorted(nodes.items()) if node not in answers}


def tell_silent(silent: Mapping[int, Node], consequence: str = "what it holds is unknown") -> None:
    for node, address in silent.items():
        click.echo(f"broker {node} at {address.host}:{address.port} does not answer: {consequence}", err=True)
