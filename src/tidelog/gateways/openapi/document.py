"""The OpenAPI document: every path of the REST proxy and the schema registry, with what goes in and what comes out.  Pure.

The tables beside this module say what each operation is; paths come from the tables that serve them, so none is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import tidelog
from tidelog.gateways.openapi import registry, rest_v2, rest_v3
from tidelog.gateways.openapi.shapes import COUNT, INDEX, NAME, TEXT, WHOLE, Operation, Shape, ref, sent

REGISTRY_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
PARAMETERS: dict[str, Shape] = {
    "broker": INDEX,
    "partition": INDEX,
    "id": COUNT,
    "version": {"oneOf": [COUNT, {"type": "string", "enum": ["latest"]}]},
}
ERROR = sent({"error_code": WHOLE, "message": TEXT})
STATUSES = {
    400: "what was sent is wrong",
    404: "there is no such thing",
    406: "the answer is not of a type that was asked for",
    409: "not as things are now",
    413: "the body is too large",
    415: "the body is not of a type that is understood",
    422: "what was sent is JSON, and does not say what it should",
    429: "there are as many as there may be",
    501: "not served",
}
ABOUT = (
    "Confluent's REST proxy, versions 2 and 3, and its schema registry, on the HTTP port of a Tidelog broker. "
    "Any request may get 421 (a name that is not the broker's) or 403 (asked for by a page of another site); "
    "5XX means that the broker could not do it, and that it may be able to later."
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    **rest_v3.OPERATIONS,
    **rest_v2.OPERATIONS,
    **registry.OPERATIONS,
}
SHAPES: dict[str, Shape] = {**rest_v3.SHAPES, **rest_v2.SHAPES, **registry.SHAPES, "Error": ERROR}


def document(endpoints: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Of method and path of each; a path that no table describes is an error of ours."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path in endpoints:
        paths.setdefault(path, {})[method.lower()] = _operation(path, OPERATIONS[method, path])
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Tidelog",
            "version": tidelog.__version__,
            "description": ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": SHAPES},
    }


def _operation(path: str, it: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    made: dict[str, Any] = {"summary": it.summary, "tags": [_tag(path)]}
    made["parameters"] = [
        {"name": one, "in": "path", "required": True, "schema": PARAMETERS.get(one, NAME)} for one in names
    ] + [{"name": one.name, "in": "query", "schema": one.shape, "description": one.about} for one in it.query]
    if it.body is not None:
        made["requestBody"] = {"required": it.body_needed, "content": _content(_bodies(path, it.body))}
    good = "no answer" if it.answer is None else "done"
    answers: dict[str, Any] = {str(204 if it.answer is None else it.status): {"description": good}}
    if it.answer is not None:
        answers[str(it.status)]["content"] = _content(_answers(path, it, it.answer))
    for status, shape in it.others:
        answers[str(status)] = {"description": good, "content": _content({it.media_type: shape})}
    for status in sorted(_refused(names, it)):
        answers[str(status)] = _error(STATUSES[status], path)
    answers["5XX"] = _error("the broker could not do it", path)
    made["responses"] = answers
    return made


def _tag(path: str) -> str:
    if path.startswith("/v3"):
        return "REST proxy, version 3"
    return "REST proxy, version 2" if _of_proxy(path) else "Schema registry"


def _of_proxy(path: str) -> bool:
    return path.startswith(("/v3", "/topics", "/consumers", "/openapi.json"))


def _by_type(shape: Shape | dict[str, Shape]) -> bool:
    return any("/" in name for name in shape)


def _answers(path: str, it: Operation, answer: Shape | dict[str, Shape]) -> dict[str, Shape]:
    if _by_type(answer):
        return answer
    return {it.media_type if _of_proxy(path) else REGISTRY_MEDIA_TYPE: answer}


def _bodies(path: str, body: Shape | dict[str, Shape]) -> dict[str, Shape]:
    if _by_type(body):
        return body
    if path.startswith("/v3"):
        return {"application/json": body}
    return {rest_v2.MEDIA_TYPE if _of_proxy(path) else REGISTRY_MEDIA_TYPE: body, "application/json": body}


def _content(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    return {media_type: {"schema": shape} for media_type, shape in shapes.items()}


def _refused(names: list[str], it: Operation) -> set[int]:
    found = {406, *it.refused}
    if names:
        found.add(404)
    if it.body is not None:
        found |= {400, 413, 415}
    return found


def _error(about: str, path: str) -> dict[str, Any]:
    types = ["application/json"] if _of_proxy(path) else ["application/json", REGISTRY_MEDIA_TYPE]
    return {"description": about, "content": _content(dict.fromkeys(types, ref("Error")))}
