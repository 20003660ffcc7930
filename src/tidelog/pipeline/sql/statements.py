"""Parses Tidelog's statements: CREATE STREAM and TABLE, INSERT INTO, EMIT, SHOW, TERMINATE, on sqlglot's tokens.

sqlglot parses the queries themselves.  Pure: text in, statements out; errors have the line and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sql.dialect import SparkText

Emit = Literal["changes", "final"]
RelationKind = Literal["stream", "table"]
GLUED = (TokenType.DASH, TokenType.DOT, TokenType.VAR, TokenType.NUMBER)


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
    query: SqlQuery


@dataclass(frozen=True)
class Explain:
    query: SqlQuery


@dataclass(frozen=True)
class Show:
    subject: Literal["topics", "streams", "tables", "queries"]


@dataclass(frozen=True)
class Describe:
    name: str


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


Statement = Create | Insert | Select | Explain | Show | Describe | Terminate | Drop | Set


def parse_script(text: str) -> Iterator[Statement]:
    """The statements of a text, each parsed when it is requested."""
    for _, statement in placed_statements(text):
        yield statement


def placed_statements(text: str) -> Iterator[tuple[str, Statement]]:
    """The statements, each with its own text at its place: blanks stand for the others, so lines and columns stay."""
    try:
        tokens = sqlglot.tokenize(text, dialect=SparkText)
    except TokenError:
        line = text.count("\n") + 1
        raise SqlError("a quote or comment is not closed", line, len(text.rsplit("\n", 1)[-1])) from None
    part: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if part:
                yield _alone(text, part), _statement(text, part)
            part = []
        else:
            part.append(token)
    if part:
        yield _alone(text, part), _statement(text, part)


def _alone(text: str, tokens: list[Token]) -> str:
    return _blank(text[: tokens[0].start]) + text[tokens[0].start : tokens[-1].end + 1]


def _statement(text: str, tokens: list[Token]) -> Statement:
    first = tokens[0]
    if first.text.upper() != "EXPLAIN":
        return _SqlParser(text, tokens).statement()
    # sqlglot reads everything after EXPLAIN as one token: so EXPLAIN is blanked out, and the rest is read again.
    blank = _blank(text[: first.end + 1]) + text[first.end + 1 : tokens[-1].end + 1]
    rest = sqlglot.tokenize(blank, dialect=SparkText)
    if not rest:
        raise SqlError("a query is expected after EXPLAIN", first.line, first.col + 1)
    return Explain(_SqlParser(blank, rest)._query())


def _blank(text: str) -> str:
    return "".join("\n" if character == "\n" else " " for character in text)


def is_complete(text: str) -> bool:
    """True if the text ends with a semicolon outside of quotes and comments."""
    try:
        tokens = sqlglot.tokenize(text, dialect=SparkText)
    except TokenError:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


@dataclass
class _SqlParser:
    text: str
    tokens: list[Token]
    at: int = field(default=0)

    def statement(self) -> Statement:
        first = self._word()
        parse = {
            "CREATE": self._create,
            "INSERT": self._insert,
            "SHOW": self._show,
            "LIST": self._show,
            "DESCRIBE": self._describe,
            "DESC": self._describe,
            "TERMINATE": self._terminate,
            "DROP": self._drop,
            "SET": self._set,
        }.get(first)
        if parse is not None:
            return parse()
        if first in ("SELECT", "WITH", "(", "FROM", "VALUES"):
            return Select(self._query())
        raise self._wrong(
            "a statement begins with SELECT, CREATE, INSERT, SHOW, DESCRIBE, TERMINATE, DROP, SET or EXPLAIN"
        )

    # Tokens

    def _word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text.upper() if at < len(self.tokens) else ""

    def _take(self, *words: str) -> bool:
        if all(self._word(at) == word for at, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def _need(self, *words: str) -> None:
        for word in words:
            if not self._take(word):
                raise self._wrong(f"{word} is expected here")

    def _name(self, subject: str) -> str:
        if self.at >= len(self.tokens):
            raise self._wrong(f"the name of {subject} is missing")
        token = self.tokens[self.at]
        if token.token_type in (TokenType.L_PAREN, TokenType.COMMA, TokenType.NUMBER, TokenType.EQ):
            raise self._wrong(f"the name of {subject} is expected here")
        self.at += 1
        name = token.text
        # Topics may have dots and dashes in their names without quotes.
        while self.at < len(self.tokens) and self.tokens[self.at].start == self.tokens[self.at - 1].end + 1:
            # Behind a dot stands a name, even if it is a word of SQL: spark.sql.session.timeZone.
            behind_dot = self.tokens[self.at - 1].token_type is TokenType.DOT
            if self.tokens[self.at].token_type not in GLUED and not behind_dot:
                break
            name += self.tokens[self.at].text
            self.at += 1
        return name

    def _end(self) -> None:
        if self.at < len(self.tokens):
            raise self._wrong("the statement should end here")

    def _wrong(self, problem: str) -> SqlError:
        if self.at >= len(self.tokens):
            last = self.tokens[-1]
            return SqlError(f"{problem}, and the statement ends", last.line, last.col + 1)
        token = self.tokens[self.at]
        return SqlError(f"{problem}, not {token.text!r}", token.line, token.col - len(token.text) + 1)

    # Statements

    def _create(self) -> Statement:
        self._need("CREATE")
        replace = self._take("OR", "REPLACE")
        kind: RelationKind
        if self._take("STREAM"):
            kind = "stream"
        elif self._take("TABLE"):
            kind = "table"
        else:
            raise self._wrong("CREATE STREAM or CREATE TABLE")
        exists = self._take("IF", "NOT", "EXISTS")
        name = self._name(f"the {kind}")
        columns, key = self._columns() if self._word() == "(" else ((), None)
        properties = self._properties() if self._take("WITH") else {}
        query = None
        if self._take("AS"):
            query = self._query()
        self._end()
        if query is not None and columns:
            raise SqlError(
                f"{name} has both columns and a query: leave the columns out, they come from the query"
            )
        return Create(kind, name, columns, key, properties, query, replace, exists)

    def _columns(self) -> tuple[tuple[tuple[str, str], ...], str | None]:
        begin = self.at
        depth = 0
        while self.at < len(self.tokens):
            kind = self.tokens[self.at].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            self.at += 1
            if depth == 0:
                break
        else:
            raise self._wrong("a parenthesis is not closed")
        tree = self._parsed(begin, self.at, "CREATE TABLE t ")
        columns, key = [], None
        for column in tree.this.expressions:
            if not isinstance(column, exp.ColumnDef) or column.kind is None:
                token = self.tokens[begin]
                raise SqlError(f"columns are names and types, not {column.sql()!r}", token.line, token.col)
            columns.append((column.name, column.kind.sql(dialect=SparkText)))
            if any(
                isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint)
                for constraint in column.constraints
            ):
                key = column.name
        return tuple(columns), key

    def _properties(self) -> dict[str, str]:
        self._need("(")
        properties: dict[str, str] = {}
        while not self._take(")"):
            name = self._name("a property").lower()
            self._need("=")
            if self.at >= len(self.tokens):
                raise self._wrong("a value is expected here")
            properties[name] = self.tokens[self.at].text
            self.at += 1
            if not self._take(",") and self._word() != ")":
                raise self._wrong(", or ) is expected here")
        return properties

    def _insert(self) -> Statement:
        self._need("INSERT", "INTO")
        name = self._name("the stream, table or topic")
        columns: list[str] = []
        if self._word() == "(" and self._word(1) not in ("SELECT", "WITH"):
            self._need("(")
            while not self._take(")"):
                columns.append(self._name("a column"))
                if not self._take(",") and self._word() != ")":
                    raise self._wrong(", or ) is expected here")
        if self._word() == "VALUES":
            first, last = self.tokens[self.at], self.tokens[-1]
            self._parsed(self.at, len(self.tokens), "SELECT * FROM ")
            self.at = len(self.tokens)
            return Insert(name, tuple(columns), self.text[first.start : last.end + 1], None)
        query = self._query()
        self._end()
        return Insert(name, tuple(columns), None, query)

    def _show(self) -> Statement:
        self.at += 1
        word = self._word()
        if word not in ("TOPICS", "STREAMS", "TABLES", "QUERIES"):
            raise self._wrong("SHOW TOPICS, STREAMS, TABLES or QUERIES")
        self.at += 1
        self._end()
        return Show(word.lower())  # type: ignore[arg-type]

    def _describe(self) -> Statement:
        self.at += 1
        name = self._name("a stream, table or topic")
        self._end()
        return Describe(name)

    def _terminate(self) -> Statement:
        self.at += 1
        name = self._name("a query")
        self._end()
        return Terminate(None if name.upper() == "ALL" else name)

    def _drop(self) -> Statement:
        self.at += 1
        kind: RelationKind
        if self._take("STREAM"):
            kind = "stream"
        elif self._take("TABLE"):
            kind = "table"
        else:
            raise self._wrong("DROP STREAM or DROP TABLE")
        exists = self._take("IF", "EXISTS")
        name = self._name(f"the {kind}")
        delete = self._take("DELETE", "TOPIC")
        self._end()
        return Drop(kind, name, delete, exists)

    def _set(self) -> Statement:
        self.at += 1
        name = self._name("a setting")
        self._need("=")
        if self.at >= len(self.tokens):
            raise self._wrong("a value is expected here")
        first, last = self.tokens[self.at], self.tokens[-1]
        alone = first is last and first.token_type is TokenType.STRING
        return Set(name, first.text if alone else self.text[first.start : last.end + 1])

    # Queries

    def _query(self) -> SqlQuery:
        begin, end = self.at, len(self.tokens)
        emit: Emit | None = None
        limit: int | None = None
        if end - begin > 4 and self.tokens[end - 2].token_type is TokenType.LIMIT and self._emits(end - 4):
            token = self.tokens[end - 1]
            if token.token_type is not TokenType.NUMBER or not token.text.isdigit():
                self.at = end - 1
                raise self._wrong("a number of rows is expected here")
            limit = int(token.text)
            end -= 2
        if self._emits(end - 2):
            word = self.tokens[end - 1].text.lower()
            if word not in ("changes", "final"):
                self.at = end - 1
                raise self._wrong("EMIT CHANGES or EMIT FINAL")
            emit = "changes" if word == "changes" else "final"
            end -= 2
        if end <= begin:
            self.at = end
            raise self._wrong("a query is expected here")
        tree = self._parsed(begin, end)
        tokens = tuple(self.tokens[begin:end])
        self.at = len(self.tokens)
        return SqlQuery(tree, emit, limit, tokens, self.text, tokens[0].start, tokens[-1].end + 1)

    def _emits(self, at: int) -> bool:
        return at >= 0 and self.tokens[at].text.upper() == "EMIT"

    def _parsed(self, begin: int, end: int, before: str = "") -> exp.Expression:
        """Parses tokens with sqlglot; the text before them is blanked out, so that lines and columns stay those of the
        text."""
        first, last = self.tokens[begin], self.tokens[end - 1]
        lead = _blank(self.text[: first.start])
        if before:
            lead = (
                lead[: -len(before)] + before
                if len(lead) >= len(before) and "\n" not in lead[-len(before) :]
                else before
            )
        try:
            tree = sqlglot.parse_one(lead + self.text[first.start : last.end + 1], dialect=SparkText)
        except ParseError as problem:
            error = problem.errors[0] if problem.errors else {}
            word = str(error.get("highlight") or "")
            reason = str(error.get("description") or "this is not SQL").split(" but got")[0].rstrip(".")
            column = int(error.get("col") or 0) - max(0, len(word) - 1)
            raise SqlError(f"{reason} at {word!r}", int(error.get("line") or 0), column) from None
        assert isinstance(tree, exp.Expression)
        return tree
