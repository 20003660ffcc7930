from __future__ import annotations

import pytest

from tests.unit.coordination.node import KINDS, entry
from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.wire.messages.group_metadata_record import GroupMetadataKey


def test_an_entry_reads_back_as_it_was_written() -> None:
    for record in (entry("a", 7), entry("a", None)):
        assert KINDS.decode(*KINDS.encode(record)) == record


def test_the_bytes_are_kafkas() -> None:
    key, value = KINDS.encode(entry("g", 7))
    assert key == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
    assert value is not None and value[:10] == b"\x00\x03" + (7).to_bytes(8, "big")


def test_what_a_newer_broker_wrote_is_passed_over() -> None:
    unknown = b"\x00\x02" + GroupMetadataKey(group="g").encode(0)
    assert KINDS.decode(unknown, b"\x00\x00") is None
    key, value = KINDS.encode(entry("g", 7))
    assert value is not None
    assert KINDS.decode(key, b"\x00\x63" + value[2:]) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00", b""),
        (b"\x00\x01\x00\x09g", b"\x00\x00"),
        (KINDS.encode(entry("g", 1))[0], b"\x00"),
    ],
)
def test_bytes_that_are_no_record_are_told(key: bytes | None, value: bytes) -> None:
    with pytest.raises(errors.InvalidRecord):
        KINDS.decode(key, value)


def test_an_entry_without_value_deletes() -> None:
    assert KINDS.encode(CoordinatorRecord(GroupMetadataKey("g"), None))[1] is None
