"""sqlglot's dialect of Spark SQL, with two additions: doubled quotes stand for one quote, and clauses between a table's
name and its alias have their positions in the text."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

Placed = TypeVar("Placed", bound=exp.Expr)

START, END = (
    "start",
    "end",
)  # as sqlglot names them in the `meta` of names and stars; the end is the last character


class PlacingParser(SparkParser):
    def _parse_version(self) -> exp.Version | None:
        first = self._curr
        return self._placed(first, super()._parse_version())

    def _parse_table_sample(self, as_modifier: bool = False) -> exp.TableSample | None:
        first = self._curr
        return self._placed(first, super()._parse_table_sample(as_modifier))

    def _placed(self, first: Any, clause: Placed | None) -> Placed | None:
        if clause is not None:
            clause.meta.update({START: first.start, END: self._prev.end})
        return clause


class SparkText(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    Parser = PlacingParser
