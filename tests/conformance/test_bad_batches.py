"""Produce requests whose records are not what they should be: each is refused and leaves nothing behind."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from tests.conformance import batches
from tests.conformance.batches import Record, batch, encode_record
from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection
from tests.conformance.topics import append, fetch, list_offset, produce, values

TWO = [b"a", b"b"]
IN_ORDER = encode_record(0, Record(b"a", b"k")) + encode_record(1, Record(b"b", b"k"))

# Where Apache Kafka fails with an error it did not foresee (UNKNOWN_SERVER_ERROR), naming the fault is as good.
ANY = ("unknown_server_error", "corrupt_message", "invalid_record", "unsupported_compression_type")

REFUSED: dict[str, tuple[bytes, str | tuple[str, ...]]] = {
    "wrong crc": (batch(TWO, crc=0x12345678), "corrupt_message"),
    "magic 3": (batch(TWO, magic=3), "corrupt_message"),
    "magic -1": (batch(TWO, magic=-1), "corrupt_message"),
    "magic 0": (batches.old_message(b"x", 0), "invalid_record"),
    "magic 1": (batches.old_message(b"x", 1), "invalid_record"),
    "no records": (batch([], last_offset_delta=0), "invalid_record"),
    "no records and no offsets": (batch([]), "invalid_record"),
    "negative last offset delta": (batch(TWO, last_offset_delta=-1), "invalid_record"),
    "last offset delta too large": (batch(TWO, last_offset_delta=5), "invalid_record"),
    "last offset delta too small": (batch(TWO, last_offset_delta=0), "invalid_record"),
    "largest last offset delta": (batch(TWO, last_offset_delta=2**31 - 1), "invalid_record"),
    "negative count": (batch(TWO, count=-1), "invalid_record"),
    "count too large": (batch(TWO, count=3, last_offset_delta=2), "invalid_record"),
    "count too small": (batch(TWO, count=1, last_offset_delta=0), "invalid_record"),
    "largest count": (batch(TWO, count=2**31 - 1, last_offset_delta=2**31 - 2), "invalid_record"),
    "negative base offset": (batch(TWO, base_offset=-5), "invalid_record"),
    "base offset not 0": (batch(TWO, base_offset=77), "invalid_record"),
    "two batches": (batch(TWO) + batch(TWO), "invalid_record"),
    "control batch": (batch(TWO, attributes=batches.CONTROL), "invalid_record"),
    "unknown codec": (batch(TWO, attributes=5), ANY),
    "bytes after the last record": (
        batch(TWO, body=encode_record(0, Record(b"a")) + b"\0" * 8),
        "invalid_record",
    ),
    "a record longer than its batch": (batch([b"a"], body=b"\x7e\0\0\0\1\2a\0"), "invalid_record"),
    "a record of negative size": (batch([b"a"], body=b"\x01\0\0\0\1\2a\0"), "invalid_record"),
    "truncated batch": (batch(TWO)[:-3], "invalid_record"),
    "length too small": (batch(TWO, length=10), "corrupt_message"),
    "length 0": (batch(TWO, length=0), "corrupt_message"),
    "negative length": (batch(TWO, length=-1), "corrupt_message"),
    "huge length": (batch(TWO, length=2**31 - 1), ANY),
    "half a header": (batch(TWO)[:30], "invalid_record"),
    "garbage": (b"\xff" * 200, "corrupt_message"),
    "no bytes": (b"", "invalid_record"),
}


# The header is sound and so is the checksum, but what is compressed is not what the header says.
WRONG_INSIDE: dict[str, bytes] = {
    "not gzip": batch(TWO, attributes=1),
    "not snappy": batch(TWO, attributes=2),
    "not lz4": batch(TWO, attributes=3),
    "not zstd": batch(TWO, attributes=4),
    "gzip of nothing": batch(TWO, body=gzip.compress(b""), attributes=1),
    "one record too few": batch(TWO, body=gzip.compress(encode_record(0, Record(b"a", b"k"))), attributes=1),
    "bytes after the last record": batch(TWO, body=gzip.compress(IN_ORDER + b"more"), attributes=1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_records_are_refused(case: str, connection: Connection, topic: Any) -> None:
    records, error = REFUSED[case]
    known = topic()
    append(connection, known, batch([b"before"]))
    answer = produce(connection, known, records)
    assert answer.error_code.name in (error if isinstance(error, tuple) else {error})
    assert answer.base_offset == -1
    assert list_offset(connection, known, -1).offset == 1
    assert append(connection, known, batch([b"after"])) == 1
    assert values(connection, known) == [b"before", b"after"]


@pytest.mark.parametrize("case", WRONG_INSIDE)
@pytest.mark.parametrize("config", [{"cleanup.policy": "compact"}, {"compression.type": "lz4"}])
def test_what_must_be_opened_must_be_sound(
    config: dict[str, str], case: str, connection: Connection, topic: Any
) -> None:
    if case == f"not {config.get('compression.type')}":
        return  # in the topic's own codec already: nothing asks for it to be opened
    known = topic(config=config)
    assert produce(connection, known, WRONG_INSIDE[case]).error_code.name in ANY
    assert list_offset(connection, known, -1).offset == 0


@pytest.mark.parametrize("case", WRONG_INSIDE)
def test_compressed_nonsense_hurts_nobody(
    case: str, broker: BrokerProcess, connection: Connection, topic: Any
) -> None:
    """Kafka opens every compressed batch and refuses these; Tidelog may store what it has no reason to open."""
    known = topic()
    answer = produce(connection, known, WRONG_INSIDE[case])
    if broker.name == "kafka" or answer.error_code != 0:
        assert answer.error_code.name in ANY
        taken = 0
    else:
        (stored,) = batches.read(fetch(connection, known, 0).records)
        assert stored.body == WRONG_INSIDE[case][batches.HEADER_BYTES :]
        taken = len(TWO)
    assert append(connection, known, batch([b"after"])) == taken
    assert values(connection, known, start=taken) == [b"after"]


def test_null_records_are_refused(broker: BrokerProcess, connection: Connection, topic: Any) -> None:
    if broker.name == "kafka":
        pytest.skip("Apache Kafka 4.3 never answers this request")
    assert produce(connection, topic(), None).error_code.name == "invalid_record"


def test_one_bad_batch_does_not_spoil_its_neighbours(connection: Connection, topic: Any) -> None:
    known = topic(partitions=3)
    sent = {0: batch([b"a"]), 1: batch([b"b"], crc=1), 2: batch([b"c"])}
    parts = [{"index": index, "records": records} for index, records in sent.items()]
    answer = connection.call(
        "produce", 11, acks=-1, timeout=5000, topic_data=[{"name": known, "partition_data": parts}]
    )
    found = {p.index: p.error_code.name for p in answer.responses[0].partition_responses}
    assert found == {0: "none", 1: "corrupt_message", 2: "none"}
    assert [values(connection, known, partition) for partition in range(3)] == [[b"a"], [], [b"c"]]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_small_batch_that_unpacks_to_a_lot_is_taken_or_refused_but_does_not_hurt(
    codec: str, connection: Connection, topic: Any
) -> None:
    known = topic(config={"max.message.bytes": "200000"})
    answer = produce(connection, known, batch([bytes(3_000_000)], codec=codec))
    assert answer.error_code.name in {"none", "message_too_large"}
    assert append(connection, known, batch([b"after"])) in (0, 1)


def test_a_bad_batch_among_compressed_ones_is_named(connection: Connection, topic: Any) -> None:
    known = topic(config={"cleanup.policy": "compact"})
    records = [Record(b"v", b"k"), Record(b"v", None), Record(b"v", b"k"), Record(b"v", None)]
    answer = produce(connection, known, batch(records, codec="gzip"))
    assert answer.error_code.name == "invalid_record"
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert answer.error_message
