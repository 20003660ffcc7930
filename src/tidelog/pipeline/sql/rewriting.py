"""Rewrites a query for Spark: the user's own text, with views in place of the names of streams, tables and topics.  Pure.

A view has those columns of the record that the query names, and a star does not include them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidelog.pipeline.sql.dialect import END, START
from tidelog.pipeline.sql.foreign import FUNCTIONS
from tidelog.pipeline.sql.statements import SqlError, SqlQuery

HIGHER_ORDER = {
    *("aggregate", "array_sort", "exists", "filter", "forall", "map_filter", "map_zip_with"),
    *("reduce", "transform", "transform_keys", "transform_values", "zip_with"),
}


@dataclass(frozen=True)
class Edit:
    """Replaces the characters from `start` up to `end`, exclusive, by `new`."""

    start: int
    end: int
    new: str


def tables_of(query: SqlQuery) -> list[exp.Table]:
    """The tables that a query reads by name, in the order of its tree; names that the query defines are left out."""
    return [
        table
        for table in query.tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier | exp.Dot) and not _defined_by_query(table)
    ]


def _defined_by_query(table: exp.Table) -> bool:
    """True if a WITH in scope defines the table's name: an earlier definition, or its own if that is recursive."""
    name, through = full_name(table).lower(), set()
    node: exp.Expr | None = table
    while node is not None:
        through.add(id(node))
        defining = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(defining, exp.With) and (node is defining or id(defining) not in through):
            for definition in defining.expressions:
                within = id(definition) in through
                if definition.alias.lower() == name and (not within or defining.args.get("recursive")):
                    return True
                if within:
                    break
        node = node.parent
    return False


def full_name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def named_among(query: SqlQuery, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that the query names anywhere."""
    words = {token.text.lower() for token in query.tokens if token.token_type is not TokenType.STRING}
    if any(name.lower() in words for name in FUNCTIONS):
        words.add("_offset")
    return tuple(column for column in columns if column in words)


def rewritten(query: SqlQuery, views: Sequence[tuple[exp.Table, str]], hidden: Collection[str]) -> str:
    """The rewritten text.  `views`: the view of each table; `hidden`: the columns that stars leave out."""
    edits = [edit for table, view in views for edit in _of_table(table, view)]
    if hidden:
        tables = {id(table) for table, _ in views}
        for select in query.tree.find_all(exp.Select):
            edits += _of_stars(query, select, tables, hidden)
    edits += [*_of_functions(query), *_of_arrows(query)]
    text, at = query.text[: query.end], query.end
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        assert edit.end <= at, "two edits of one place"
        text, at = text[: edit.start] + edit.new + text[edit.end :], edit.start
    return text[query.start :]


def _of_table(table: exp.Table, view: str) -> Iterator[Edit]:
    places = [part.meta for part in table.parts]
    end = max(place[END] for place in places) + 1
    yield Edit(min(place[START] for place in places), end, _quoted(view))
    version, sample = table.args.get("version"), table.args.get("sample")
    if version is not None:
        yield Edit(version.meta[START], version.meta[END] + 1, "")
        end = version.meta[END] + 1
    if not table.alias:
        if sample is not None:
            end = sample.meta[END] + 1
        yield Edit(end, end, f" AS {_quoted(table.name)}")


def _of_functions(query: SqlQuery) -> Iterator[Edit]:
    """LATEST_BY_OFFSET(x) and EARLIEST_BY_OFFSET(x) of ksqlDB: the x of the last or first record that has one."""
    tokens = query.tokens
    tables = {table.alias_or_name for table in tables_of(query)}
    for at, token in enumerate(tokens):
        name = FUNCTIONS.get(token.text.upper())
        if name is None or at + 1 == len(tokens) or tokens[at + 1].token_type is not TokenType.L_PAREN:
            continue
        depth, last = 0, at + 1
        while last < len(tokens):
            depth += (tokens[last].token_type is TokenType.L_PAREN) - (
                tokens[last].token_type is TokenType.R_PAREN
            )
            if depth == 0:
                break
            if depth == 1 and tokens[last].token_type is TokenType.COMMA:
                raise SqlError(
                    f"{token.text} has one argument here", token.line, token.col - len(token.text) + 1
                )
            last += 1
        argument = query.text[tokens[at + 2].start : tokens[last - 1].end + 1]
        for arrow in _field_arrows(query):
            if tokens[at + 2].start < arrow.start < tokens[last].start:
                argument = argument.replace("->", ".")
        table = argument.split(".")[0]
        of = f"{table}." if table in tables else ""
        yield Edit(token.start, token.end + 1, name)
        end = tokens[last].end + 1
        yield Edit(end - 1, end, f", {of}`_offset`) FILTER (WHERE {argument} IS NOT NULL)")


def _of_arrows(query: SqlQuery) -> Iterator[Edit]:
    """`address->city` of ksqlDB is `address.city`."""
    for token in _field_arrows(query):
        yield Edit(token.start, token.end + 1, ".")


def _field_arrows(query: SqlQuery) -> list[Token]:
    """The arrows that reach into a struct; those directly in a call of a higher-order function are of its lambda."""
    calls: list[str] = []
    arrows = []
    for at, token in enumerate(query.tokens):
        if token.token_type is TokenType.L_PAREN:
            calls.append(query.tokens[at - 1].text.lower() if at else "")
        elif token.token_type is TokenType.R_PAREN and calls:
            calls.pop()
        elif token.token_type is TokenType.ARROW and not HIGHER_ORDER.intersection(calls):
            arrows.append(token)
    return arrows


def _of_stars(
    query: SqlQuery, select: exp.Select, tables: set[int], hidden: Collection[str]
) -> Iterator[Edit]:
    """`*` becomes `* EXCEPT (a._offset, ...)` for the tables that the SELECT reads itself.  A subquery has such a column
    only if it names the column."""
    joins: list[exp.Join] = select.args.get("joins") or []
    used = {column.name.lower() for join in joins for column in join.args.get("using") or ()}
    source = select.args.get("from_")
    read = [source.this] if source is not None else []
    read += [join.this for join in joins if join.kind not in ("SEMI", "ANTI")]
    mine = [table for table in read if id(table) in tables and not _reshaped(table)]
    if mine and any(join.method == "NATURAL" for join in joins):
        raise SqlError(f"NATURAL JOIN would also join on {', '.join(hidden)}: use JOIN ... USING (columns)")
    for expression in select.expressions:
        star = expression.this if isinstance(expression, exp.Column) else expression
        if not isinstance(star, exp.Star):
            continue
        of = expression.table.lower() if isinstance(expression, exp.Column) else ""
        excluded = {(column.table.lower(), column.name.lower()) for column in _left_out(star)}
        left_out = [
            f"{_quoted(table)}.{_quoted(name)}"
            for table in (relation.alias_or_name for relation in mine)
            if of in ("", table.lower())
            for name in hidden
            if name not in used and not excluded & {("", name), (table.lower(), name)}
        ]
        if left_out:
            yield _without(query, star, ", ".join(left_out))


def _left_out(star: exp.Star) -> Iterator[exp.Column]:
    for column in star.args.get("except_") or ():
        yield column if isinstance(column, exp.Column) else exp.column(column)


def _reshaped(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return bool(table.args.get("pivots")) or (alias is not None and bool(alias.columns))


def _without(query: SqlQuery, star: exp.Star, names: str) -> Edit:
    behind = star.meta[END] + 1
    if not star.args.get("except_"):
        return Edit(behind, behind, f" EXCEPT ({names})")
    opened = next(
        token for token in query.tokens if token.start >= behind and token.token_type is TokenType.L_PAREN
    )
    return Edit(opened.end + 1, opened.end + 1, f"{names}, ")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
