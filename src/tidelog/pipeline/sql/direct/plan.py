"""Decides whether a query can be answered without Spark, and how.  Pure.

A plan reads one stream, table or topic: columns or simple aggregates, conditions that compare columns with constants,
ORDER BY columns, LIMIT.  A query is refused (`NotDirect`) where Spark's result could differ by a conversion, a collation
or a function: then Spark runs the query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from sqlglot import exp

INTEGERS = ("int", "bigint")
NUMBERS = (*INTEGERS, "double")
TYPES = ("string", "text", "binary", "boolean", "timestamp", *NUMBERS)
INT64_MAX = 2**63 - 1
LIMIT_MAX = 10_000
COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
MIRRORED = {"=": "=", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
AGGREGATES: dict[type, str] = {exp.Count: "count", exp.Min: "min", exp.Max: "max", exp.Sum: "sum"}
TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{1,6})?Z?)?")

Constant = str | int | float | bool | datetime


class NotDirect(Exception):
    """The query needs Spark; the text says why."""


@dataclass(frozen=True)
class Comparison:
    column: str
    operator: str
    constant: Constant


@dataclass(frozen=True)
class AnyOf:
    column: str
    constants: tuple[Constant, ...]


@dataclass(frozen=True)
class IsNull:
    column: str


@dataclass(frozen=True)
class Like:
    """`begins` and `ends`: whether the text begins or ends with the constant; neither: it contains the constant."""

    column: str
    constant: str
    begins: bool
    ends: bool


@dataclass(frozen=True)
class Logic:
    """`parts`: two for and, or; one for not."""

    operator: Literal["and", "or", "not"]
    parts: tuple[Condition, ...]


Condition = Comparison | AnyOf | IsNull | Like | Logic


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result: a column as it is, or an aggregate of a column (None: of rows)."""

    name: str
    column: str | None
    aggregate: str | None = None


@dataclass(frozen=True)
class DirectPlan:
    outputs: tuple[OutputColumn, ...]
    condition: Condition | None = None
    groups: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()  # columns that are read, and whether they descend
    limit: int | None = None
    columns: frozenset[str] = field(default=frozenset())  # every column that the plan reads

    @property
    def aggregated(self) -> bool:
        return bool(self.groups) or any(output.aggregate for output in self.outputs)

    @property
    def is_tail(self) -> bool:
        """True if the rows with the highest offsets of each partition are enough."""
        return self.order == (("_offset", True),) and self.limit is not None and not self.aggregated

    @property
    def reads_all(self) -> bool:
        """True if no row can be handed out before every record was read."""
        return self.aggregated or bool(self.order)


def direct_plan(tree: exp.Expression, types: Mapping[str, str], visible: Sequence[str]) -> DirectPlan:
    """`types`: the type of each column that Spark knows; `visible`: those that a star stands for."""
    if not isinstance(tree, exp.Select):
        raise NotDirect("only a SELECT is read directly")
    _only(tree, "expressions", "from_", "where", "order", "limit", "group")
    return _Planner(tree, types, visible).plan()


def _only(node: exp.Expression, *names: str) -> None:
    """Refuses a node with anything else: a clause that sqlglot knows and this planner does not."""
    for name, value in node.args.items():
        if value and name not in names:
            raise NotDirect(f"{name} of {type(node).__name__} needs Spark")


@dataclass
class _Planner:
    tree: exp.Select
    types: Mapping[str, str]
    visible: Sequence[str]
    read: set[str] = field(default_factory=set)

    def plan(self) -> DirectPlan:
        group = self.tree.args.get("group")
        groups = self._groups(group) if group is not None else ()
        outputs = tuple(output for item in self.tree.expressions for output in self._outputs(item))
        aggregated = bool(groups) or any(output.aggregate for output in outputs)
        if aggregated:
            for output in outputs:
                if output.aggregate is None and output.column not in groups:
                    raise NotDirect(f"{output.name} is neither grouped nor an aggregate")
        where = self.tree.args.get("where")
        condition = self._condition(where.this) if where is not None else None
        order = self.tree.args.get("order")
        if order is not None and aggregated:
            raise NotDirect("ORDER BY of groups needs Spark")
        ordered = self._order(order, outputs) if order is not None else ()
        return DirectPlan(outputs, condition, groups, ordered, self._limit(), frozenset(self.read))

    def _column(self, node: exp.Expression | None) -> str:
        if not isinstance(node, exp.Column):
            raise NotDirect("an expression needs Spark")
        _only(node, "this", "table")
        table = node.table
        source = self.tree.args["from_"].this
        if table and table != source.alias_or_name:
            raise NotDirect(f"{table}.{node.name} may be a field of a struct")
        if self.types.get(node.name) not in TYPES:
            raise NotDirect(f"{node.name} is not a column of a simple type")
        self.read.add(node.name)
        return node.name

    def _outputs(self, item: exp.Expression) -> list[OutputColumn]:
        alias = item.alias if isinstance(item, exp.Alias) else None
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Star):
            _only(node)
            for name in self.visible:
                if self.types.get(name) not in TYPES:
                    raise NotDirect(f"{name} is not a column of a simple type")
            self.read |= set(self.visible)
            return [OutputColumn(name, name) for name in self.visible]
        aggregate = AGGREGATES.get(type(node))
        if aggregate is None:
            column = self._column(node)
            return [OutputColumn(alias or column, column)]
        return [self._aggregate(node, aggregate, alias)]

    def _aggregate(self, node: exp.Expression, aggregate: str, alias: str | None) -> OutputColumn:
        _only(node, "this", "big_int")
        if aggregate == "count" and (
            isinstance(node.this, exp.Star)
            or (isinstance(node.this, exp.Literal) and not node.this.is_string)
        ):
            return OutputColumn(alias or "count(1)", None, aggregate)
        column = self._column(node.this)
        kind = self.types[column]
        if aggregate == "sum" and kind not in INTEGERS:
            raise NotDirect("a sum of fractions depends on its order")
        if aggregate in ("min", "max") and kind not in (*INTEGERS, "timestamp"):
            raise NotDirect(f"{aggregate} of {kind} needs Spark")
        return OutputColumn(alias or f"{aggregate}({column})", column, aggregate)

    def _groups(self, group: exp.Expression) -> tuple[str, ...]:
        _only(group, "expressions")
        columns = tuple(self._column(node) for node in group.expressions)
        aliases = {item.alias for item in self.tree.expressions if isinstance(item, exp.Alias)}
        if aliases & set(columns) or any(self.types[column] == "double" for column in columns):
            raise NotDirect("this grouping needs Spark")
        return columns

    def _order(self, order: exp.Expression, outputs: Sequence[OutputColumn]) -> tuple[tuple[str, bool], ...]:
        _only(order, "expressions")
        by_name = {output.name: output.column for output in outputs}
        keys = []
        for node in order.expressions:
            descending = bool(node.args.get("desc"))
            # sqlglot fills in Spark's default: nulls first if ascending, last if descending.
            _only(node, "this", "desc", "nulls_first")
            if bool(node.args.get("nulls_first")) == descending:
                raise NotDirect("NULLS FIRST and NULLS LAST need Spark")
            named = (
                by_name.get(node.this.name)
                if isinstance(node.this, exp.Column) and not node.this.table
                else None
            )
            column = named or self._column(node.this)
            keys.append((column, descending))
        return tuple(keys)

    def _limit(self) -> int | None:
        limit = self.tree.args.get("limit")
        if limit is None:
            return None
        _only(limit, "expression")
        number = limit.expression
        if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdigit():
            raise NotDirect("LIMIT is not a number")
        if int(number.this) > LIMIT_MAX and self.tree.args.get("order") is not None:
            raise NotDirect(f"more than {LIMIT_MAX} rows in order need Spark")
        return int(number.this)

    # Conditions

    def _condition(self, node: exp.Expression) -> Condition:
        if isinstance(node, exp.Paren):
            return self._condition(node.this)
        if isinstance(node, exp.And | exp.Or):
            _only(node, "this", "expression")
            parts = (self._condition(node.this), self._condition(node.expression))
            return Logic("and" if isinstance(node, exp.And) else "or", parts)
        if isinstance(node, exp.Not):
            return Logic("not", (self._condition(node.this),))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            _only(node, "this", "expression")
            return IsNull(self._column(node.this))
        if isinstance(node, exp.Between):
            _only(node, "this", "low", "high")
            column = self._column(node.this)
            low, high = (self._constant(column, node.args[bound]) for bound in ("low", "high"))
            return Logic("and", (Comparison(column, ">=", low), Comparison(column, "<=", high)))
        if isinstance(node, exp.In):
            _only(node, "this", "expressions")
            column = self._column(node.this)
            return AnyOf(column, tuple(self._constant(column, each) for each in node.expressions))
        if isinstance(node, exp.Like):
            _only(node, "this", "expression", "negate")
            like = self._like(node)
            return Logic("not", (like,)) if node.args.get("negate") else like
        if isinstance(node, exp.Column) and self.types.get(node.name) == "boolean":
            return Comparison(self._column(node), "=", True)
        return self._comparison(node)

    def _comparison(self, node: exp.Expression) -> Comparison:
        operator = COMPARISONS.get(type(node))
        if operator is None:
            raise NotDirect(f"a condition needs Spark: {type(node).__name__}")
        _only(node, "this", "expression")
        if isinstance(node.this, exp.Column):
            column = self._column(node.this)
            return Comparison(column, operator, self._constant(column, node.expression))
        column = self._column(node.expression)
        return Comparison(column, MIRRORED[operator], self._constant(column, node.this))

    def _like(self, node: exp.Like) -> Like:
        column = self._column(node.this)
        pattern = self._constant(column, node.expression)
        shape = re.fullmatch(r"(%?)([^%_]+)(%?)", pattern) if isinstance(pattern, str) else None
        if shape is None or self.types[column] not in ("string", "text"):
            raise NotDirect("this LIKE needs Spark")
        return Like(column, shape[2], begins=not shape[1], ends=not shape[3])

    def _constant(self, column: str, node: exp.Expression) -> Constant:
        """The constant of a comparison, if Spark compares it with this column without a conversion that we lack."""
        kind = self.types[column]
        if isinstance(node, exp.Boolean) and kind == "boolean":
            return bool(node.this)
        negative = isinstance(node, exp.Neg)
        literal = node.this if negative else node
        if isinstance(literal, exp.Literal) and not literal.is_string and kind in NUMBERS:
            return _number(("-" if negative else "") + literal.this, kind)
        if isinstance(node, exp.Cast) and kind == "timestamp" and node.to.is_type("timestamptz"):
            node = literal = node.this
        if (
            isinstance(literal, exp.Literal)
            and literal.is_string
            and "\\" not in literal.this
            and not negative
        ):
            if kind in ("string", "text"):
                return str(literal.this)
            if kind == "timestamp" and TIME.fullmatch(literal.this):
                return _time(literal.this)
        raise NotDirect(f"the comparison with {column} needs a conversion")


def _number(text: str, kind: str) -> int | float:
    if kind == "double" and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", text):
        return float(text)
    if kind in INTEGERS and re.fullmatch(r"-?\d+", text) and abs(int(text)) <= INT64_MAX:
        return int(text)
    raise NotDirect(f"the number {text} needs a conversion")


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise NotDirect(f"{text} is not a time") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def conjuncts(condition: Condition | None) -> list[Condition]:
    """The conditions that must all hold."""
    if condition is None:
        return []
    if isinstance(condition, Logic) and condition.operator == "and":
        return [part for each in condition.parts for part in conjuncts(each)]
    return [condition]
