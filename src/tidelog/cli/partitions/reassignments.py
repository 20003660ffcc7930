"""Ongoing reassignments: shows their progress, waits for them, cancels them.  For `tidelog partitions`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.cluster.disks import Disks, disks, tell_silent
from tidelog.cli.output import ProgressLine, bytes_text, print_json, print_table
from tidelog.cli.partitions import throttles

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.cli.session import CommandSession
    from tidelog.client.admin.partition_admin import Reassignment

WAIT_S = 0.5


class Copied(NamedTuple):
    """Bytes that new replicas have, and that they will have; None where a broker does not answer."""

    done: int | None
    whole: int | None


async def look(session: CommandSession, admin: Admin, topics: tuple[str, ...], cancel: bool) -> None:
    under_way = await admin.list_reassignments()
    moving = [
        reassignment for reassignment in under_way if not topics or reassignment.partition.topic in topics
    ]
    if cancel and moving:
        await admin.reassign_partitions({reassignment.partition: None for reassignment in moving})
    over = not under_way or (cancel and len(moving) == len(under_way))
    copied, removed = await asyncio.gather(
        _copied(admin, moving), throttles.remove(admin) if over else throttles.nothing_removed()
    )
    tell_left(removed)
    if session.json:
        rows = [_row(reassignment, copied[reassignment.partition]) for reassignment in moving]
        print_json({"cancelled" if cancel else "moving": rows, "unthrottled": removed._asdict()})
        return
    if moving:
        _print(moving, copied)
        click.echo(
            f"{len(moving)} moves were cancelled"
            if cancel
            else f"{len(moving)} under way: {_of(copied.values())} copied"
        )
    else:
        click.echo("no partition is being moved")
    if removed.brokers or removed.topics:
        click.echo(f"throttles were removed: brokers {joined(removed.brokers)}, topics {len(removed.topics)}")


def tell_left(removed: throttles.Removed) -> None:
    for node in removed.left:
        click.echo(
            f"broker {node} does not answer: if its rate was limited, it still is; `tidelog partitions reassign --verify` "
            "takes that back once the broker is there again",
            err=True,
        )


async def wait(admin: Admin, count: int) -> None:
    progress, loop = ProgressLine(), asyncio.get_running_loop()
    while moving := await admin.list_reassignments():
        copied = await _copied(admin, moving)
        done = f"{max(0, count - len(moving))} of {count} moved"
        progress.update(loop.time(), f"{done}, {_of(copied.values())} of the rest copied")
        await asyncio.sleep(WAIT_S)
    progress.clear()


async def _copied(admin: Admin, moving: list[Reassignment]) -> dict[Any, Copied]:
    if not moving:
        return {}
    disk_usage = await disks(admin, {reassignment.partition.topic for reassignment in moving})
    tell_silent(disk_usage.silent)
    return {reassignment.partition: copied(reassignment, disk_usage) for reassignment in moving}


def copied(reassignment: Reassignment, disk_usage: Disks) -> Copied:
    held = [node for node in reassignment.replicas if node not in reassignment.adding]
    whole = disk_usage.largest_bytes(held, *reassignment.partition)
    new = [disk_usage.replica_bytes(node, *reassignment.partition) for node in reassignment.adding]
    # A new replica may be larger than its source, which may have deleted old records meanwhile.
    sizes = [size if whole is None else min(size, whole) for size in new if size is not None]
    return Copied(
        sum(sizes) if len(sizes) == len(new) else None,
        None if whole is None else whole * len(reassignment.adding),
    )


def _row(reassignment: Reassignment, copied: Copied) -> dict[str, Any]:
    return {
        "topic": reassignment.partition.topic,
        "partition": reassignment.partition.partition,
        "replicas": reassignment.replicas,
        "adding": reassignment.adding,
        "removing": reassignment.removing,
        "copied": copied.done,
        "bytes": copied.whole,
    }


def _print(moving: list[Reassignment], copied: Mapping[Any, Copied]) -> None:
    table = [
        (
            *reassignment.partition,
            joined(reassignment.replicas),
            joined(reassignment.adding),
            joined(reassignment.removing),
            _of([copied[reassignment.partition]]),
        )
        for reassignment in moving
    ]
    columns = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "COPIED")
    print_table(columns, table, right=("PARTITION", "COPIED"))


def _of(parts: Iterable[Copied]) -> str:
    done, whole = zip(*parts, strict=True)
    return f"{total(done)} of {total(whole)}"


def total(sizes: Iterable[int | None]) -> str:
    """The sum of the known sizes as text, marked where some are unknown."""
    every = list(sizes)
    known_sizes = [size for size in every if size is not None]
    if not known_sizes and every:
        return "unknown"
    return ("at least " if len(known_sizes) < len(every) else "") + (bytes_text(sum(known_sizes)) or "")


def joined(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or "-"
