"""`--where`: a condition on a record, such as `value.total > 100 and headers.source == 'shop'`.  Pure.

The text is parsed as a Python expression, of which only comparisons, `and`, `or`, `not`, fields and four functions are
taken; it is turned into functions of a record and never evaluated as Python.  Length and size of the expression are
bounded, and regular expressions take time in proportion to the text.  A field that is not there is null, and a
comparison of values of different kinds is false."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidelog.cli.start_offset import BadStart, parse_start

if TYPE_CHECKING:
    from tidelog.aio import Record

TEXT_MAX = 4_096
NODES_MAX = 300

WHERE_HELP = """A condition compares fields with values by == != < <= > >= `in` and `not in`, joined by `and`, `or`, `not`:
  key, value            text; key.id, value.items[0].price are fields of JSON
  headers.NAME          text; headers['a-b'] for other names
  partition, offset     numbers
  timestamp             compared with a time such as '2026-01-31T09:00' or '-10m', or with milliseconds
  'text' 1.5 true null  values; 'a' in value is true if the text contains it
  matches(value, 'RE')  lower(key)  len(value)  exists(headers.trace)"""

Test = Callable[["RecordFields"], Any]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: container is not None and item in container,
    ast.NotIn: lambda item, container: container is None or item not in container,
}
_AVRO_TYPES = ("boolean", "int", "long", "float", "double", "bytes", "string", "array", "map")
_NAMES = {"true": True, "false": False, "null": None}
_ROOTS = ("key", "value", "headers", "partition", "offset", "timestamp", "topic")


class BadCondition(ValueError):
    """The condition cannot be read; the text says what is wrong."""


class RecordFields:
    """The fields of one record, parsed when a condition asks for them.  `key` and `value`: what a schema made of them,
    or the bytes."""

    def __init__(self, record: Record, key: Any, value: Any) -> None:
        self._record = record
        self._key = key
        self._value = value

    def root(self, name: str) -> Any:
        """The field as a condition compares it."""
        if name in ("key", "value"):
            return _text(self._key if name == "key" else self._value)
        return self.headers if name == "headers" else getattr(self._record, name)

    def parsed(self, name: str) -> Any:
        """The field as JSON; None if it is none."""
        return self._key_json if name == "key" else self._value_json if name == "value" else self.root(name)

    @cached_property
    def headers(self) -> dict[str, str | None]:
        """The last one of each name."""
        return {name: _text(value) for name, value in self._record.headers}

    @cached_property
    def _key_json(self) -> Any:
        return _json(self._key)

    @cached_property
    def _value_json(self) -> Any:
        return _json(self._value)


def parse_condition(text: str, now_ms: int) -> Callable[[RecordFields], bool]:
    """`now_ms`: what times such as '-10m' count from."""
    if len(text) > TEXT_MAX:
        raise BadCondition(f"the condition has {len(text)} characters: at most {TEXT_MAX} are taken")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as problem:
        hint = ": write == to compare" if "=" in text and "==" not in text else ""
        raise BadCondition(f"{text!r} is not a condition: {problem.msg}{hint}") from None
    except (RecursionError, MemoryError, ValueError):
        raise BadCondition("the condition is nested too deeply") from None
    if sum(1 for _ in ast.walk(tree)) > NODES_MAX:
        raise BadCondition(f"the condition has more than {NODES_MAX} parts")
    test = _Compiler(text, now_ms).of(tree.body)
    return lambda fields: bool(test(fields))


class _Compiler:
    def __init__(self, text: str, now_ms: int) -> None:
        self._text = text
        self._now_ms = now_ms

    def of(self, node: ast.expr) -> Test:
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                tests = [self.of(value) for value in values]
                return lambda fields: all(test(fields) for test in tests)
            case ast.BoolOp(values=values):
                tests = [self.of(value) for value in values]
                return lambda fields: any(test(fields) for test in tests)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                test = self.of(operand)
                return lambda fields: not test(fields)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return lambda _: -number
            case ast.Compare():
                return self._comparison(node)
            case ast.Constant(value=str() | int() | float() | None as value):
                return lambda _: value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                parts = [self.of(item) for item in items]
                return lambda fields: [part(fields) for part in parts]
            case ast.Name(id=name) if name in _NAMES:
                constant = _NAMES[name]
                return lambda _: constant
            case ast.Name(id=name) if name in _ROOTS:
                return lambda fields: fields.root(name)
            case ast.Attribute() | ast.Subscript():
                return self._path(node)
            case ast.Call():
                return self._function(node)
        raise self._refused(node)

    def _comparison(self, node: ast.Compare) -> Test:
        sides = [node.left, *node.comparators]
        timed = any(isinstance(side, ast.Name) and side.id == "timestamp" for side in sides)
        values = [self._time(side) if timed else self.of(side) for side in sides]
        steps = []
        for at, kind in enumerate(node.ops):
            if type(kind) not in _COMPARISONS:
                raise self._refused(node)
            steps.append((values[at], _COMPARISONS[type(kind)], values[at + 1]))

        def test(fields: RecordFields) -> bool:
            try:
                return all(compare(left(fields), right(fields)) for left, compare, right in steps)
            except TypeError:
                return False  # values of different kinds

        return test

    def _time(self, node: ast.expr) -> Test:
        """Beside `timestamp`: a text is a time."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return self.of(node)
        try:
            start = parse_start(node.value, self._now_ms)
        except BadStart:
            start = None
        if start is None or start.kind != "time":
            raise BadCondition(f"{node.value!r} is not a time: write it like '2026-01-31T09:00' or '-10m'")
        moment = start.value
        return lambda _: moment

    def _path(self, node: ast.expr) -> Test:
        """`value.items[0].price`"""
        steps: list[str | int] = []
        inner = node
        while not isinstance(inner, ast.Name):
            match inner:
                case ast.Attribute(value=outer, attr=name):
                    steps.append(name)
                case ast.Subscript(value=outer, slice=ast.Constant(value=str() | int() as step)):
                    steps.append(step)
                case ast.Subscript(
                    value=outer, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as step))
                ):
                    steps.append(-step)
                case _:
                    raise self._refused(node)
            inner = outer
        if inner.id not in ("key", "value", "headers"):
            raise self._refused(inner)
        root = inner.id
        steps.reverse()

        def read(fields: RecordFields) -> Any:
            found = fields.parsed(root)
            for step in steps:
                try:
                    found = _branch(found, step)[step]
                except (KeyError, IndexError, TypeError):
                    return None
            return _branch(found) if root != "headers" else found

        return read

    def _function(self, node: ast.Call) -> Test:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if node.keywords or name not in ("matches", "lower", "len", "exists"):
            raise self._refused(node)
        if len(node.args) != (2 if name == "matches" else 1):
            raise BadCondition(f"{name} takes {'a field and a text' if name == 'matches' else 'one field'}")
        field = self.of(node.args[0])
        if name == "matches":
            return _matching(field, node.args[1])
        if name == "exists":
            return lambda fields: field(fields) is not None
        if name == "len":
            return lambda fields: _length(field(fields))
        return lambda fields: _lower(field(fields))

    def _refused(self, node: ast.AST) -> BadCondition:
        part = ast.unparse(node) if isinstance(node, ast.expr) else self._text
        return BadCondition(
            f"{part!r} cannot be in a condition: use {', '.join(_ROOTS)}, comparisons, and, or, not, matches, lower, len, "
            "exists"
        )


def _branch(value: Any, step: str | int | None = None) -> Any:
    """What is in a union of Avro, whose JSON names the type: of {"string": "x"}, the text."""
    if isinstance(value, dict) and len(value) == 1 and step not in value:
        ((kind, inner),) = value.items()
        if kind in _AVRO_TYPES or (step is not None and isinstance(inner, dict)):
            return inner
    return value


def _matching(field: Test, pattern: ast.expr) -> Test:
    import re2

    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
        raise BadCondition("matches takes a field and a regular expression in quotes")
    try:
        search = re2.compile(pattern.value).search
    except re2.error as problem:
        raise BadCondition(f"{pattern.value!r} is not a regular expression: {problem}") from None

    def test(fields: RecordFields) -> bool:
        text = field(fields)
        return isinstance(text, str) and search(text) is not None

    return test


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, str | list | dict) else None


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _text(data: Any) -> str | None:
    if isinstance(data, bytes):
        return data.decode(errors="backslashreplace")
    if data is None or isinstance(data, str):
        return data
    return json.dumps(data, ensure_ascii=False)


def _json(data: Any) -> Any:
    if not isinstance(data, bytes):
        return data
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
