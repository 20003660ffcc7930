"""What many groups have committed, asked at once."""

from __future__ import annotations

from collections.abc import Callable

from tidelog import Admin, TopicPartition


def test_offsets_of_many_groups(bootstrap: str, topic: Callable[..., str], name: Callable[[], str]) -> None:
    read = topic(partitions=2)
    first, second, unknown = name(), name(), name()
    zero, one = TopicPartition(read, 0), TopicPartition(read, 1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(first, {zero: 3, one: 5})
        admin.alter_group_offsets(second, {one: 7})
        many = [name() for _ in range(250)]  # more than one request takes
        found = admin.list_groups_offsets([first, *many, second, unknown, first])
        assert found.pop(first) == admin.list_group_offsets(first)
        assert {where: offset.offset for where, offset in found.pop(second).items()} == {one: 7}
        assert found == {group: {} for group in [*many, unknown]}
        assert admin.list_groups_offsets([]) == {}
