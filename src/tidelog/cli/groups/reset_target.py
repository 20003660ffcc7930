"""The options of `tidelog groups reset` that give the new position of a group."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.records.start_offset import duration_ms, moment_ms
from tidelog.cli.session import Failure

if TYPE_CHECKING:
    from tidelog.aio import Admin, TopicPartition

F = TypeVar("F", bound=Callable[..., Any])


def target_option(command: F) -> F:
    """Adds the options for the new position; the command gets a `Target`, from exactly one of them."""

    @functools.wraps(command)
    def with_target(
        *args: Any,
        to: str | None,
        offset: int | None,
        shift: int | None,
        moment: str | None,
        duration: str | None,
        **kwargs: Any,
    ) -> Any:
        import time

        from tidelog.client.admin.reset_target import ResetTarget

        targets = [
            None if to is None else ResetTarget("earliest" if to == "earliest" else "latest"),
            None if offset is None else ResetTarget("offset", offset),
            None if shift is None else ResetTarget("shift", shift),
            None if moment is None else ResetTarget("time", parse_moment(moment)),
            None if duration is None else ResetTarget("time", ago(duration, time.time_ns() // 1_000_000)),
        ]
        given = [target for target in targets if target is not None]
        if len(given) != 1:
            raise click.UsageError(
                "Give the new position with one of --to, --offset, --shift, --datetime, --duration."
            )
        return command(*args, target=given[0], **kwargs)

    wrapped: Any = with_target
    for option in (
        click.option("--duration", metavar="AGO", help="To this long ago, like 10m (ms, s, m, h, d)."),
        click.option(
            "--datetime",
            "moment",
            metavar="TIME",
            help="To a time like 2026-01-31T09:00 (local time unless it has an offset).",
        ),
        click.option("--shift", type=int, metavar="N", help="Forward by N offsets, or back with -N."),
        click.option("--offset", type=click.IntRange(0), metavar="N", help="To this offset."),
        click.option(
            "--to", type=click.Choice(["earliest", "latest"]), help="To the first offset or the end offset."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def parse_moment(text: str) -> int:
    try:
        return moment_ms(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time: write it like 2026-01-31T09:00") from None


def ago(text: str, now_ms: int) -> int:
    length = duration_ms(text)
    if length is None:
        raise click.BadParameter(f"{text!r} is not a duration: write it like 10m (ms, s, m, h, d)")
    return max(0, now_ms - length)


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """`orders`, or `orders:0,2` for some of its partitions."""
    name, colon, listed = text.partition(":")
    if not colon:
        return name, None
    indexes = listed.split(",")
    if not name or not all(index.strip().isdecimal() for index in indexes):
        raise Failure(f"{text!r} is not of the form TOPIC:N,N")
    return name, [int(index) for index in indexes]


async def chosen(
    admin: Admin, topics: Iterable[str], committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """The partitions that the command line names; without names, all that have offsets."""
    from tidelog.aio import TopicPartition

    named = [parse_topic(topic) for topic in topics]
    if not named:
        topic_names = {topic.name for topic in await admin.list_topics(internal=True)}
        return [partition for partition in committed if partition.topic in topic_names]
    described = await admin.describe_topics([name for name, _ in named])
    partitions: list[TopicPartition] = []
    for name, indexes in named:
        count = len(described[name].partitions)
        for index in range(count) if indexes is None else indexes:
            if index >= count:
                raise Failure(f"topic {name!r} has no partition {index}: it has 0 to {count - 1}")
            partitions.append(TopicPartition(name, index))
    return list(dict.fromkeys(partitions))
