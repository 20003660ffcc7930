"""Words to describe JSON with, as OpenAPI 3.0 has it.  Pure.

What we send is described to the last field; what we take may have more."""

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
    """Or null."""
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
    """An object in a request.  Fields that are unknown are refused."""
    return sent(fields, optional)


def open_to_more(fields: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object in a request.  Fields that are unknown are not looked at."""
    made: Shape = {"type": "object", "properties": {**fields, **(optional or {})}}
    if fields:
        made["required"] = list(fields)
    return made


def mapping(shape: Shape) -> Shape:
    return {"type": "object", "additionalProperties": shape}


def ref(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


class Parameter(NamedTuple):
    """Of the query."""

    name: str
    shape: Shape
    about: str


class Operation(NamedTuple):
    """What can be done at a path.  `answer`: None when there is none, which is status 204."""

    summary: str
    answer: Shape | dict[str, Shape] | None
    """Or one shape for each media type, as for the body."""
    body: Shape | dict[str, Shape] | None = None
    query: tuple[Parameter, ...] = ()
    refused: tuple[int, ...] = ()
    """Statuses that only this one has."""
    status: int = 200
    others: tuple[tuple[int, Shape], ...] = ()
    """Other good answers."""
    body_needed: bool = True
    media_type: str = "application/json"
    """Of the answer."""
