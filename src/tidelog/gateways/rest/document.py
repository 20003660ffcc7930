"""The OpenAPI document of the REST proxy, made of its table of endpoints: paths, parameters, and the shape of errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import tidelog

NUMBERS = frozenset({"broker", "partition"})
_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def document(endpoints: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Of method, path and name of each."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, name in endpoints:
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, name)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Tidelog REST proxy", "version": tidelog.__version__},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }


def _operation(method: str, path: str, name: str) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    made: dict[str, Any] = {
        "summary": name.replace("_", " "),
        "parameters": [_parameter(one) for one in re.findall(r"{(\w+)}", path)],
        "responses": {
            "2XX": {"description": "done"},
            "4XX": {"description": "what was asked is wrong", "content": error},
            "5XX": {"description": "the broker could not do it", "content": error},
        },
    }
    if method in ("POST", "PUT"):
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    return made


def _parameter(name: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0} if name in NUMBERS else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}
