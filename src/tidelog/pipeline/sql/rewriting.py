"""What Spark is given of a query: the user's own text, with views in place of the names of streams, tables and topics.

Columns of the record are in a view where the query names them, and a star does not stand for them.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidelog.pipeline.sql.dialect import END, START
from tidelog.pipeline.sql.statements import SqlError, SqlQuery


@dataclass(frozen=True)
class Edit:
    """Characters from `start` on, below `end`, become `new`."""

    start: int
    end: int
    new: str


def tables_of(query: SqlQuery) -> list[exp.Table]:
    """What a query reads from by name, in the order of its tree; names that it gives itself are left out."""
    return [
        one
        for one in query.tree.find_all(exp.Table)
        if isinstance(one.this, exp.Identifier | exp.Dot) and not _defined_by_query(one)
    ]


def _defined_by_query(table: exp.Table) -> bool:
    """Whether a WITH that the table can see defines its name: those before it, and its own only if it recurses."""
    name, through = full_name(table).lower(), set()
    node: exp.Expr | None = table
    while node is not None:
        through.add(id(node))
        defining = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(defining, exp.With) and (node is defining or id(defining) not in through):
            for one in defining.expressions:
                within = id(one) in through
                if one.alias.lower() == name and (not within or defining.args.get("recursive")):
                    return True
                if within:
                    break
        node = node.parent
    return False


def full_name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def named_among(query: SqlQuery, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that the query says anything about."""
    said = {token.text.lower() for token in query.tokens if token.token_type is not TokenType.STRING}
    return tuple(one for one in columns if one in said)


def rewritten(query: SqlQuery, views: Sequence[tuple[exp.Table, str]], hidden: Collection[str]) -> str:
    """`views` has the view for each table, `hidden` the columns that stars leave out."""
    edits = [edit for table, view in views for edit in _of_table(table, view)]
    if hidden:
        tables = {id(table) for table, _ in views}
        for select in query.tree.find_all(exp.Select):
            edits += _of_stars(query, select, tables, hidden)
    text, at = query.text[: query.end], query.end
    for one in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        assert one.end <= at, "two edits of one place"
        text, at = text[: one.start] + one.new + text[one.end :], one.start
    return text[query.start :]


def _of_table(table: exp.Table, view: str) -> Iterator[Edit]:
    places = [part.meta for part in table.parts]
    end = max(one[END] for one in places) + 1
    yield Edit(min(one[START] for one in places), end, _quoted(view))
    version, sample = table.args.get("version"), table.args.get("sample")
    if version is not None:
        yield Edit(version.meta[START], version.meta[END] + 1, "")
        end = version.meta[END] + 1
    if not table.alias:
        if sample is not None:
            end = sample.meta[END] + 1
        yield Edit(end, end, f" AS {_quoted(table.name)}")


def _of_stars(
    query: SqlQuery, select: exp.Select, tables: set[int], hidden: Collection[str]
) -> Iterator[Edit]:
    """`*` becomes `* EXCEPT (a._offset, ...)`, for what the select reads itself; in what others give to it such
    columns were named."""
    joins: list[exp.Join] = select.args.get("joins") or []
    used = {one.name.lower() for join in joins for one in join.args.get("using") or ()}
    source = select.args.get("from_")
    read = [source.this] if source is not None else []
    read += [join.this for join in joins if join.kind not in ("SEMI", "ANTI")]
    mine = [one for one in read if id(one) in tables and not _reshaped(one)]
    if mine and any(join.method == "NATURAL" for join in joins):
        raise SqlError(f"NATURAL JOIN would go by {', '.join(hidden)}, too: JOIN ... USING (columns)")
    for one in select.expressions:
        star = one.this if isinstance(one, exp.Column) else one
        if not isinstance(star, exp.Star):
            continue
        of = one.table.lower() if isinstance(one, exp.Column) else ""
        said = {(each.table.lower(), each.name.lower()) for each in _left_out(star)}
        left_out = [
            f"{_quoted(table)}.{_quoted(name)}"
            for table in (one.alias_or_name for one in mine)
            if of in ("", table.lower())
            for name in hidden
            if name not in used and not said & {("", name), (table.lower(), name)}
        ]
        if left_out:
            yield _without(query, star, ", ".join(left_out))


def _left_out(star: exp.Star) -> Iterator[exp.Column]:
    for one in star.args.get("except_") or ():
        yield one if isinstance(one, exp.Column) else exp.column(one)


def _reshaped(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return bool(table.args.get("pivots")) or (alias is not None and bool(alias.columns))


def _without(query: SqlQuery, star: exp.Star, names: str) -> Edit:
    behind = star.meta[END] + 1
    if not star.args.get("except_"):
        return Edit(behind, behind, f" EXCEPT ({names})")
    opened = next(one for one in query.tokens if one.start >= behind and one.token_type is TokenType.L_PAREN)
    return Edit(opened.end + 1, opened.end + 1, f"{names}, ")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
