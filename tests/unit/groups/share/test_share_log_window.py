from __future__ import annotations

from tidelog.groups.share.log_window import AbortedRange, window
from tidelog.groups.share.partition import AcquiredRange, OffsetSpan
from tidelog.record.builder import BatchBuilder, EndMarker, Marker, build_marker
from tidelog.record.reader import read_records


def batch(base: int, count: int, producer_id: int = -1) -> bytes:
    builder = BatchBuilder()
    for offset in range(base, base + count):
        builder.add(None, b"v%d" % offset, 1)
    return builder.build(
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=producer_id >= 0,
    )


def marker(base: int, producer_id: int) -> bytes:
    end = EndMarker(Marker.ABORT, 0)
    return build_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=base)


def test_batches_are_spans_and_what_lies_between_them_is_empty() -> None:
    read = window(batch(0, 3) + batch(5, 2) + batch(9, 1), 1)
    assert read.spans == [
        OffsetSpan(1, 2),
        OffsetSpan(3, 4, True),
        OffsetSpan(5, 6),
        OffsetSpan(7, 8, True),
        OffsetSpan(9, 9),
    ]


def test_markers_and_aborted_transactions_are_empty() -> None:
    data = batch(0, 2, producer_id=7) + batch(2, 2, producer_id=8) + marker(4, 7) + batch(5, 1, producer_id=7)
    plain = window(data, 0)
    assert [span.empty for span in plain.spans] == [False, False, True, False]
    committed = window(data, 0, [AbortedRange(7, 0, 4)])
    assert [span.empty for span in committed.spans] == [True, False, True, False]


def test_only_batches_that_something_was_acquired_of_are_sent_and_they_are_whole() -> None:
    read = window(batch(0, 3) + batch(3, 3) + batch(6, 3), 0)
    sent = read.records([AcquiredRange(1, 1, 1), AcquiredRange(7, 8, 1)])
    assert [record.offset for record in read_records(sent)] == [0, 1, 2, 6, 7, 8]
    assert read.records([]) == b""


def test_a_batch_that_is_cut_is_not_there() -> None:
    assert window(batch(0, 3) + batch(3, 3)[:-1], 0).spans == [OffsetSpan(0, 2)]


def rotten(data: bytes, at: int = -1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def test_nothing_from_a_batch_on_that_fails_its_checksum_is_there() -> None:
    read = window(batch(0, 3) + rotten(batch(5, 2)) + batch(7, 1), 1)
    assert read.spans == [OffsetSpan(1, 2)]
    assert (read.damaged, len(read.headers)) == (3, 1)
    assert window(batch(0, 3), 1).damaged is None


def test_bytes_that_are_no_batch_are_damaged() -> None:
    read = window(rotten(batch(4, 3), 8), 4)
    assert (read.damaged, read.spans) == (4, [])
    assert window(b"", 4).damaged is None
