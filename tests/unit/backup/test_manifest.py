"""Which objects of an earlier backup still hold what a log has."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.backup.manifest import (
    BackupManifest,
    BackupObject,
    CorruptBackup,
    PartitionBackup,
    check_name,
    reusable,
)
from tidelog.errors import InvalidConfig

TOPIC_ID = UUID(int=7)
SMALL = 100


def stored(start: int, end: int, size: int = SMALL, epoch: int = 0) -> BackupObject:
    return BackupObject(start, end, size, size, "0" * 64, epoch, 1)


def backed_up(*objects: BackupObject, start: int = 0) -> PartitionBackup:
    return PartitionBackup("orders", TOPIC_ID.hex, 0, start, objects[-1].end, objects)


def ranges(objects: tuple[BackupObject, ...]) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in objects]


def test_a_log_that_has_grown_keeps_its_objects() -> None:
    before = backed_up(stored(0, 10), stored(10, 20))
    assert ranges(reusable(before, TOPIC_ID, 0, 50, [(0, 0)], SMALL)) == [(0, 10), (10, 20)]


def test_a_small_last_object_is_read_again_only_if_the_log_has_grown() -> None:
    before = backed_up(stored(0, 10), stored(10, 20, SMALL - 1))
    assert ranges(reusable(before, TOPIC_ID, 0, 50, [(0, 0)], SMALL)) == [(0, 10)]
    assert ranges(reusable(before, TOPIC_ID, 0, 20, [(0, 0)], SMALL)) == [(0, 10), (10, 20)]
    # Retention has taken its first records from the log: they cannot be read again.
    assert ranges(reusable(before, TOPIC_ID, 15, 50, [(0, 0)], SMALL)) == [(10, 20)]


def test_a_topic_that_was_made_anew_starts_from_nothing() -> None:
    assert reusable(backed_up(stored(0, 10)), UUID(int=8), 0, 50, [(0, 0)], SMALL) == ()


def test_records_that_an_unclean_election_replaced_are_read_again() -> None:
    before = backed_up(stored(0, 10, epoch=1), stored(10, 20, epoch=1))
    assert ranges(reusable(before, TOPIC_ID, 0, 50, [(1, 0), (2, 15)], SMALL)) == [(0, 10)]
    assert ranges(reusable(before, TOPIC_ID, 0, 12, [(1, 0)], SMALL)) == [(0, 10)]


def test_deleted_records_leave_with_their_objects() -> None:
    before = backed_up(stored(0, 10), stored(10, 20))
    assert ranges(reusable(before, TOPIC_ID, 12, 50, [(0, 12)], SMALL)) == [(10, 20)]
    assert reusable(before, TOPIC_ID, 20, 50, [(0, 20)], SMALL) == ()


def test_a_manifest_survives_its_encoding_and_nothing_else_is_one() -> None:
    manifest = BackupManifest(
        "nightly", "cluster", 5, 1, (backed_up(stored(0, 10)),), (("topics/a", b"\x00\xff"),)
    )
    assert BackupManifest.decode(manifest.encode(), "it") == manifest
    for data in (b"", b"[]", b"{}", manifest.encode().replace(b'"format":1', b'"format":9')):
        with pytest.raises(CorruptBackup):
            BackupManifest.decode(data, "it")


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "x" * 129])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(InvalidConfig):
        check_name(name)
