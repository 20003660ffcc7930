"""Parses Tidelog's statements: CREATE STREAM and TABLE, INSERT INTO, EMIT, SHOW, TERMINATE, on sqlglot's tokens.

sqlglot parses the queries themselves.  Pure: text in, statements out; errors have the line and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidelog.pipeline.sql import foreign
from tidelog.pipeline.sql.dialect import SparkText
from tidelog.pipeline.sql.parsed import (
    Alter,
    Create,
    Describe,
    Drop,
    Emit,
    Explain,
    Insert,
    RelationKind,
    Select,
    Set,
    Show,
    SqlError,
    SqlQuery,
    Statement,
    Terminate,
)

__all__ = [
    "Alter",
    "Create",
    "Describe",
    "Drop",
    "Emit",
    "Explain",
    "Insert",
    "RelationKind",
    "Select",
    "Set",
    "Show",
    "SqlError",
    "SqlQuery",
    "Statement",
    "Terminate",
    "is_complete",
    "parse_script",
    "placed_statements",
]

GLUED = (TokenType.DASH, TokenType.DOT, TokenType.VAR, TokenType.NUMBER)


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
        self._answer(foreign.statement_answer([token.text.upper() for token in self.tokens[:3]]))
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
            "PRINT": self._print,
            "ALTER": self._alter,
        }.get(first)
        if parse is not None:
            return parse()
        if first in ("SELECT", "WITH", "(", "FROM", "VALUES"):
            return Select(self._query())
        raise self._wrong(
            "a statement begins with SELECT, CREATE, INSERT, SHOW, DESCRIBE, TERMINATE, DROP, SET or EXPLAIN"
        )

    def _answer(self, answer: foreign.Answer | None) -> None:
        if answer is not None:
            token = self.tokens[self.at + answer.at]
            raise SqlError(answer.text, token.line, token.col - len(token.text) + 1)

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
        replaces = self._take("OR", "REPLACE")
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
            key = self._partitioned_by() or key
            query = self._query()
        self._end()
        if query is not None and columns:
            raise SqlError(
                f"{name} has both columns and a query: leave the columns out, they come from the query"
            )
        return Create(kind, name, columns, key, properties, query, replaces, exists)

    def _partitioned_by(self) -> str | None:
        """The column of PARTITION BY behind the query, which ends there: the key of the records."""
        end = len(self.tokens) - (2 if self._emits(len(self.tokens) - 2) else 0)
        if end - 3 <= self.at or self.tokens[end - 2].token_type is not TokenType.PARTITION_BY:
            return None
        name = self.tokens[end - 1].text
        del self.tokens[end - 2 : end]
        return name

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
        keys = self._key_marks(begin)
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
        return tuple(columns), key or keys

    def _key_marks(self, begin: int) -> str | None:
        """The column with ksqlDB's mark `id INT KEY`; takes the marks out of the text."""
        name, column, depth = None, "", 0
        for at in range(begin, self.at - 1):
            token, behind = self.tokens[at], self.tokens[at + 1]
            depth += (token.text in ("(", "<")) - (token.text in (")", ">"))
            if depth == 1 and token.text in ("(", ","):
                column = behind.text
            elif (
                depth == 1
                and token.text.upper() == "KEY"
                and token.text != column
                and behind.text in (",", ")")
            ):
                name = column
                self.text = self.text[: token.start] + " " * len(token.text) + self.text[token.end + 1 :]
        return name

    def _properties(self) -> dict[str, str]:
        begin = self.at
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
        try:
            return foreign.properties_of(properties)
        except ValueError as problem:
            raise SqlError(str(problem), self.tokens[begin].line, self.tokens[begin].col) from None

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

    def _print(self) -> Statement:
        """PRINT topic FROM BEGINNING [LIMIT n]: every record from the first one on."""
        self.at += 1
        name = self._name("a topic")
        if not self._take("FROM", "BEGINNING"):
            raise self._wrong(
                f"FROM BEGINNING is expected here (`tidelog consume {name}` shows new records only)"
            )
        limit = ""
        if self._take("LIMIT"):
            limit = f" LIMIT {self._word()}"
            self.at += 1
        self._end()
        quoted = "`" + name.replace("`", "``") + "`"
        text = f"SELECT _timestamp, key, value, _partition, _offset FROM {quoted} EMIT CHANGES{limit}"
        [printed] = parse_script(text)
        assert isinstance(printed, Select)
        return replace(printed, of_topic=True)

    def _alter(self) -> Statement:
        self.at += 1
        kind: RelationKind
        if self._take("STREAM"):
            kind = "stream"
        elif self._take("TABLE"):
            kind = "table"
        else:
            raise self._wrong("ALTER STREAM or ALTER TABLE")
        name = self._name(f"the {kind}")
        columns: list[tuple[str, str]] = []
        while not columns or self._take(","):
            self._need("ADD")
            self._take("COLUMN")
            begin = self.at
            while self.at < len(self.tokens) and not (self._word() == "," and self._word(1) == "ADD"):
                self.at += 1
            if self.at - begin < 2:
                raise self._wrong("a column and its type are expected here")
            text = self.text[self.tokens[begin].start : self.tokens[self.at - 1].end + 1]
            columns += _SqlParser(f"({text})", sqlglot.tokenize(f"({text})", dialect=SparkText))._columns()[0]
        self._end()
        return Alter(kind, name, tuple(columns))

    def _describe(self) -> Statement:
        self.at += 1
        extended = self._word(1) != "" and self._take("EXTENDED")
        name = self._name("a stream, table or topic")
        extended = self._take("EXTENDED") or extended
        self._end()
        return Describe(name, extended)

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
        self._answer(foreign.clause_answer([token.text.upper() for token in self.tokens[begin:]]))
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
