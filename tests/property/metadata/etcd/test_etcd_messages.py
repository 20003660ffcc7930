"""etcd's messages as bytes: what is written can be read again, and bad bytes are only refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.metadata.etcd import messages as messages

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
field = st.integers(1, 1 << 20)
READERS = [
    messages.read_range,
    messages.read_txn,
    messages.read_watch,
    messages.read_lease,
    messages.read_token,
    messages.read_status,
]


@given(st.lists(st.tuples(field, int64 | st.binary())))
def test_fields_are_read_as_they_were_written(pairs: list[tuple[int, int | bytes]]) -> None:
    text = b"".join(
        messages.number(number, value) if isinstance(value, int) else messages.message(number, value)
        for number, value in pairs
    )
    # A number that has its default value is left out.
    assert list(messages.fields(text)) == [(number, value) for number, value in pairs if value != 0]


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(text: bytes) -> None:
    for read in READERS:
        try:
            read(text)
        except (messages.MalformedEtcdMessage, UnicodeDecodeError):
            pass


def test_fields_of_fixed_size_are_skipped() -> None:
    # 1: fixed64, 2: fixed32, 3: a number
    assert list(messages.fields(b"\x09" + bytes(8) + b"\x15" + bytes(4) + b"\x18\x07")) == [(3, 7)]


def test_bytes_are_those_that_protobufs_rules_ask_for() -> None:
    assert messages.range_request(b"a", b"b", 300, 1) == b"\x0a\x01a\x12\x01b\x18\xac\x02\x20\x01"
    assert messages.compare_revision(b"k", 0) == b"\x10\x02\x1a\x01k\x30\x00"
    assert messages.put_operation(b"k", b"", -1) == b"\x12\x0e\x0a\x01k\x18" + b"\xff" * 9 + b"\x01"
    assert messages.PROGRESS_REQUEST == b"\x1a\x00"
