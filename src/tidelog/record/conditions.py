"""What a producer expects of a partition before its record is appended, as the record's headers say.  Pure.

    tidelog.expected.version       offset of the last record with this key; -1: there is none, or it is a tombstone
    tidelog.expected.end.offset    offset that this record gets

Values are decimal digits.  Only topics with `conditional.append.enable` look at them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from tidelog._speed.log.records import BadRecord, Record, read
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from typing_extensions import Buffer

EXPECTED_VERSION = "tidelog.expected.version"
EXPECTED_END = "tidelog.expected.end.offset"
NO_RECORD = -1
KEY_BYTES_MAX = 32  # of a key that is kept as it is; longer ones are kept as a hash
_HASH_BYTES = 16
_DIGITS_MAX = 19


class Expectation(NamedTuple):
    """The expectation of one record.  `key`: a hash of the record's key, None without a key."""

    key: bytes | None
    is_tombstone: bool
    version: int | None
    end: int | None


class WrongExpectations(InvalidRecord):
    """`records` says which ones of the batch, and why, for the answer to the producer."""

    def __init__(self, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.records = records


def key_name(key: bytes) -> bytes:
    """What stands for the key where many are kept."""
    return key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=_HASH_BYTES).digest()


def expectations(section: Buffer, count: int) -> list[Expectation]:
    """The expectation of each record of a batch, in the order of the records."""
    return [_expectation(index, record) for index, record in enumerate(read(section, count, 0, 0))]


def _expectation(index: int, record: Record) -> Expectation:
    version = end = None
    for name, value in record.headers:
        if name == EXPECTED_VERSION:
            version = _number(index, name, value)
        elif name == EXPECTED_END:
            end = _number(index, name, value)
    if record.key is None and version is not None:
        raise _wrong(index, f"{EXPECTED_VERSION} is the version of a key, and the record has none")
    key = None if record.key is None else key_name(record.key)
    return Expectation(key, record.value is None, version, end)


def _number(index: int, name: str, value: bytes | None) -> int:
    text = b"" if value is None else value
    digits = text.removeprefix(b"-")
    if digits.isdigit() and len(digits) <= _DIGITS_MAX:
        number = int(text)
        if number >= NO_RECORD:
            return number
    raise _wrong(index, f"{name} must be an offset in decimal digits, or -1, not {text[:40]!r}")


def _wrong(index: int, why: str) -> BadRecord:
    return BadRecord(f"record {index} of the batch: {why}", index)
