"""The messages of pgoutput, protocol version 1, from bytes to values.  Pure.

A decoder belongs to one replication stream: a relation is described once, before its first change."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

POSTGRES_EPOCH_US = 946_684_800_000_000
UNCHANGED = object()
"""A large value (TOAST) that the update has not touched: the server does not send it."""

Cell = bytes | None | object
_BEGIN = struct.Struct(">qqi")
_COMMIT = struct.Struct(">Bqqq")
_LENGTH = struct.Struct(">i")


class BadStream(ValueError):
    """Bytes that are no message of pgoutput."""


@dataclass(frozen=True, slots=True)
class ReplicatedColumn:
    name: str
    type_oid: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class ReplicatedTable:
    oid: int
    schema: str
    table: str
    identity: str
    """d: primary key, n: nothing, f: all columns, i: an index."""
    columns: tuple[ReplicatedColumn, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: int
    time_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    end_lsn: int


@dataclass(frozen=True, slots=True)
class Change:
    op: str
    """c, u, d or t, as in Debezium."""
    relation: ReplicatedTable
    before: list[Cell] | None = None
    after: list[Cell] | None = None


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    transactional: bool
    prefix: str
    content: bytes


Message = Begin | Commit | Change | LogicalMessage | ReplicatedTable | None


@dataclass(slots=True)
class PgOutputDecoder:
    relations: dict[int, ReplicatedTable] = field(default_factory=dict)

    def decode(self, data: bytes) -> list[Message]:
        """A message; a truncation is one change for each table."""
        try:
            return self._decode(data)
        except (struct.error, IndexError, KeyError, UnicodeDecodeError) as problem:
            raise BadStream(f"no message of pgoutput: {problem!r} in {data[:40]!r}") from None

    def _decode(self, data: bytes) -> list[Message]:
        kind = data[:1]
        if kind == b"I":
            relation = self.relations[_LENGTH.unpack_from(data, 1)[0]]
            return [Change("c", relation, None, _tuple(data, 6)[0])]
        if kind == b"U":
            return [self._update(data)]
        if kind == b"D":
            relation = self.relations[_LENGTH.unpack_from(data, 1)[0]]
            return [Change("d", relation, _tuple(data, 6)[0])]
        if kind == b"B":
            lsn, time_us, xid = _BEGIN.unpack_from(data, 1)
            return [Begin(lsn, time_us + POSTGRES_EPOCH_US, xid & 0xFFFFFFFF)]
        if kind == b"C":
            return [Commit(_COMMIT.unpack_from(data, 1)[2])]
        if kind == b"R":
            relation = _relation(data)
            self.relations[relation.oid] = relation
            return [relation]
        if kind == b"T":
            count = _LENGTH.unpack_from(data, 1)[0]
            oids = struct.unpack_from(f">{count}i", data, 6)
            return [Change("t", self.relations[oid]) for oid in oids]
        if kind == b"M":
            transactional, end = bool(data[1]), data.index(b"\0", 10)
            return [LogicalMessage(transactional, data[10:end].decode(), data[end + 5 :])]
        if kind in (b"Y", b"O"):
            return []  # the name of a type, and where a change came from first
        raise BadStream(f"an unknown message of pgoutput: {data[:40]!r}")

    def _update(self, data: bytes) -> Change:
        relation = self.relations[_LENGTH.unpack_from(data, 1)[0]]
        before, at = None, 5
        if data[5:6] in (b"K", b"O"):
            before, at = _tuple(data, 6)
        after, _ = _tuple(data, at + 1)
        if before is not None and relation.identity == "f":
            after = [old if new is UNCHANGED else new for old, new in zip(before, after, strict=True)]
        return Change("u", relation, before, after)


def _tuple(data: bytes, at: int) -> tuple[list[Cell], int]:
    """The cells of a row, and the byte behind them."""
    count = int.from_bytes(data[at : at + 2], "big")
    at += 2
    cells: list[Cell] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: text
            size = _LENGTH.unpack_from(data, at)[0]
            at += 4
            if at + size > len(data):
                raise IndexError("a value ends behind its message")
            cells.append(data[at : at + size])
            at += size
        elif kind == 0x6E:  # n: null
            cells.append(None)
        elif kind == 0x75:  # u: unchanged
            cells.append(UNCHANGED)
        else:
            raise BadStream(f"an unknown kind of value: {kind:#x}")
    return cells, at


def _relation(data: bytes) -> ReplicatedTable:
    oid = _LENGTH.unpack_from(data, 1)[0]
    end = data.index(b"\0", 5)
    schema = data[5:end].decode() or "pg_catalog"
    at = data.index(b"\0", end + 1)
    table = data[end + 1 : at].decode()
    identity = chr(data[at + 1])
    count = int.from_bytes(data[at + 2 : at + 4], "big")
    at += 4
    columns = []
    for _ in range(count):
        end = data.index(b"\0", at + 1)
        type_oid, modifier = struct.unpack_from(">Ii", data, end + 1)
        columns.append(ReplicatedColumn(data[at + 1 : end].decode(), type_oid, modifier, bool(data[at] & 1)))
        at = end + 9
    return ReplicatedTable(oid, schema, table, identity, tuple(columns))
