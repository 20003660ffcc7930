"""Spark's SQL as sqlglot reads it, with what sqlglot lacks: quotes are doubled to stand for themselves, and clauses
that stand between a table's name and its alias know where they are in the text."""

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

    def _placed(self, first: Any, found: Placed | None) -> Placed | None:
        if found is not None:
            found.meta.update({START: first.start, END: self._prev.end})
        return found


class SparkText(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    Parser = PlacingParser
