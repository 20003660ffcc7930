"""What SQL statements are, once they are parsed.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from tidelog.pipeline.options.text import PipelineError

Emit = Literal["changes", "final"]
RelationKind = Literal["stream", "table"]


class SqlError(PipelineError):
    """An error in a statement, with its line and column."""

    def __init__(self, text: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(text if line is None else f"line {line}, column {column}: {text}")
        self.line, self.column = line, column


@dataclass(frozen=True)
class SqlQuery:
    """`text`: the whole script; the query is the text from `start` up to `end`, exclusive."""

    tree: exp.Expression
    emit: Emit | None
    limit: int | None
    tokens: tuple[Token, ...]
    text: str
    start: int
    end: int

    def position(self, name: str) -> tuple[int | None, int | None]:
        """Line and column of the first `name` in the text."""
        for token in self.tokens:
            if token.text.lower() == name.lower():
                return token.line, token.col - len(token.text) + 1
        return None, None


@dataclass(frozen=True)
class Create:
    kind: RelationKind
    name: str
    columns: tuple[tuple[str, str], ...]  # names and Spark's types
    key: str | None
    properties: dict[str, str]
    query: SqlQuery | None
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True)
class Insert:
    name: str
    columns: tuple[str, ...]
    rows: str | None  # VALUES (...), as it was written
    query: SqlQuery | None


@dataclass(frozen=True)
class Select:
    """`of_topic`: names are those of topics, also where a stream or table has the same name."""

    query: SqlQuery
    of_topic: bool = False


@dataclass(frozen=True)
class Explain:
    query: SqlQuery


@dataclass(frozen=True)
class Show:
    subject: Literal["topics", "streams", "tables", "queries"]


@dataclass(frozen=True)
class Describe:
    name: str
    extended: bool = False


@dataclass(frozen=True)
class Alter:
    kind: RelationKind
    name: str
    columns: tuple[tuple[str, str], ...]  # to be added


@dataclass(frozen=True)
class Terminate:
    name: str | None  # None: all


@dataclass(frozen=True)
class Drop:
    kind: RelationKind
    name: str
    delete_topic: bool
    if_exists: bool


@dataclass(frozen=True)
class Set:
    name: str
    value: str


Statement = Create | Insert | Select | Explain | Show | Describe | Terminate | Drop | Set | Alter
