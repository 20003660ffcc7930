"""Building blocks for JSON schemas of OpenAPI 3.0.  Pure.

Answers are described to the last field; requests may have more fields."""

from __future__ import annotations

from typing import Any, NamedTuple

Shape = dict[str, Any]

INT32_MAX = 2**31 - 1
ANYTHING: Shape = {}
TEXT: Shape = {"type": "string"}
NAME: Shape = {"type": "string", "minLength": 1}
FLAG: Shape = {"type": "boolean"}
WHOLE: Shape = {"type": "integer"}
INDEX: Shape = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
COUNT: Shape = {"type": "integer", "minimum": 1, "maximum": INT32_MAX}
OFFSET: Shape = {"type": "integer", "minimum": 0, "maximum": 2**63 - 2}
BASE64: Shape = {"type": "string", "format": "byte"}
TIME: Shape = {"type": "string", "format": "date-time"}


def maybe(shape: Shape) -> Shape:
    """The shape, or null."""
    return {"allOf": [shape], "nullable": True} if "$ref" in shape else {**shape, "nullable": True}


def many(shape: Shape, **more: Any) -> Shape:
    return {"type": "array", "items": shape, **more}


def one_of(*values: str) -> Shape:
    return {"type": "string", "enum": list(values)}


def sent(fields: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object in an answer, with these fields and no others."""
    made = open_to_more(fields, optional)
    made["additionalProperties"] = False
    return made


def taken(fields: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object in a request.  Unknown fields are refused."""
    return sent(fields, optional)


def open_to_more(fields: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object in a request.  Unknown fields are ignored."""
    made: Shape = {"type": "object", "properties": {**fields, **(optional or {})}}
    if fields:
        made["required"] = list(fields)
    return made


def mapping(shape: Shape) -> Shape:
    return {"type": "object", "additionalProperties": shape}


def ref(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


class Parameter(NamedTuple):
    """A parameter of the query string."""

    name: str
    shape: Shape
    about: str


class Operation(NamedTuple):
    """A method of a path.  `answer`: None for status 204 without content."""

    summary: str
    answer: Shape | dict[str, Shape] | None
    """One shape, or a shape by media type; the same for the body."""
    body: Shape | dict[str, Shape] | None = None
    query: tuple[Parameter, ...] = ()
    refused: tuple[int, ...] = ()
    """Error statuses of this operation, besides the common ones."""
    status: int = 200
    others: tuple[tuple[int, Shape], ...] = ()
    """Other successful answers, by status."""
    body_needed: bool = True
    media_type: str = "application/json"
    """The media type of the answer."""
