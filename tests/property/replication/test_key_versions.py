"""Versions of keys, beside a list of all records: what is refused, and what a new leader reads from the log."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog._speed.log.records import Record
from tidelog.record.builder import build_batch
from tidelog.record.conditions import NO_RECORD, Expectation, WrongExpectations
from tidelog.replication.key_versions import KeyVersions

KEYS = [b"a", b"b", b"c", None]


class Wish(NamedTuple):
    key: bytes | None
    is_tombstone: bool
    version_off: int | None
    """How far the expected version is from the true one; None: nothing is expected."""
    end_off: int | None


WISHES = st.builds(
    Wish,
    st.sampled_from(KEYS),
    st.booleans(),
    st.sampled_from([None, None, 0, 0, 0, 1]),
    st.sampled_from([None, None, 0, 1]),
)


def version_of(key: bytes, log: list[tuple[bytes | None, bool]], start: int) -> int:
    offsets = [offset for offset, (other, _) in enumerate(log) if other == key]
    if not offsets or log[offsets[-1]][1] or offsets[-1] < start:
        return NO_RECORD
    return offsets[-1]


@settings(deadline=None)
@given(st.lists(st.lists(WISHES, min_size=1, max_size=4), max_size=25), st.integers(0, 20))
def test_a_batch_is_taken_if_and_only_if_all_its_records_find_what_they_expect(
    batches: list[list[Wish]], start_max: int
) -> None:
    versions, log = KeyVersions(), list[tuple[bytes | None, bool]]()
    kept = bytearray()
    for wishes in batches:
        base, after = len(log), list(log)
        start = min(start_max, base)
        expected, wrong = [], []
        for at, wish in enumerate(wishes):
            version = end = None
            if wish.key is not None and wish.version_off is not None:
                version = version_of(wish.key, after, start) + wish.version_off
            if wish.end_off is not None:
                end = base + at + wish.end_off
            if (version is not None and wish.version_off) or wish.end_off:
                wrong.append(at)
            expected.append(Expectation(wish.key, wish.is_tombstone, version, end))
            after.append((wish.key, wish.is_tombstone))
        if wrong:
            with pytest.raises(WrongExpectations) as refusal:
                versions.check(expected, base, start)
            assert sorted({index for index, _ in refusal.value.records}) == wrong
            continue
        versions.check(expected, base, start)
        versions.appended(expected, base)
        records = [
            Record(at, 0, wish.key, None if wish.is_tombstone else b"v") for at, wish in enumerate(wishes)
        ]
        kept += build_batch(records, base_offset=base)
        log = after
    read, start = KeyVersions(), min(start_max, len(log))
    assert read.replay(bytes(kept), 0) == len(log)
    for key in (b"a", b"b", b"c"):
        assert versions.version(key, start) == read.version(key, start) == version_of(key, log, start)
