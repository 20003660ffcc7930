"""The OpenAPI document: every path of the REST proxy and the schema registry, with requests and answers.  Pure.

The tables beside this module describe each operation; paths come from the tables that serve them, so none is missing."""

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
    400: "the request is malformed",
    404: "the resource does not exist",
    406: "the answer has none of the accepted content types",
    409: "the current state does not allow the request",
    413: "the body is too large",
    415: "the content type of the body is not supported",
    422: "the body is JSON, but its content is invalid",
    429: "the maximum number is reached",
    501: "not supported",
}
ABOUT = (
    "Confluent's REST proxy, versions 2 and 3, and its schema registry, on the HTTP port of a Tidelog broker. "
    "Any request may get 421 (a host name that is not the broker's) or 403 (sent by a page of another site); "
    "5XX means that the broker failed to handle the request; a retry may succeed."
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    **rest_v3.OPERATIONS,
    **rest_v2.OPERATIONS,
    **registry.OPERATIONS,
}
SHAPES: dict[str, Shape] = {**rest_v3.SHAPES, **rest_v2.SHAPES, **registry.SHAPES, "Error": ERROR}


def document(endpoints: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The operation of each method and path.  A path without an entry is a bug."""
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


def _operation(path: str, operation: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    described: dict[str, Any] = {"summary": operation.summary, "tags": [_tag(path)]}
    described["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": PARAMETERS.get(name, NAME)} for name in names
    ] + [
        {"name": parameter.name, "in": "query", "schema": parameter.shape, "description": parameter.about}
        for parameter in operation.query
    ]
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.body_needed,
            "content": _content(_bodies(path, operation.body)),
        }
    good = "no content" if operation.answer is None else "success"
    answers: dict[str, Any] = {
        str(204 if operation.answer is None else operation.status): {"description": good}
    }
    if operation.answer is not None:
        answers[str(operation.status)]["content"] = _content(_answers(path, operation, operation.answer))
    for status, shape in operation.others:
        answers[str(status)] = {"description": good, "content": _content({operation.media_type: shape})}
    for status in sorted(_refused(names, operation)):
        answers[str(status)] = _error(STATUSES[status], path)
    answers["5XX"] = _error("the broker failed to handle the request", path)
    described["responses"] = answers
    return described


def _tag(path: str) -> str:
    if path.startswith("/v3"):
        return "REST proxy, version 3"
    return "REST proxy, version 2" if _of_proxy(path) else "Schema registry"


def _of_proxy(path: str) -> bool:
    return path.startswith(("/v3", "/topics", "/consumers", "/openapi.json"))


def _by_type(shape: Shape | dict[str, Shape]) -> bool:
    return any("/" in name for name in shape)


def _answers(path: str, operation: Operation, answer: Shape | dict[str, Shape]) -> dict[str, Shape]:
    if _by_type(answer):
        return answer
    return {operation.media_type if _of_proxy(path) else REGISTRY_MEDIA_TYPE: answer}


def _bodies(path: str, body: Shape | dict[str, Shape]) -> dict[str, Shape]:
    if _by_type(body):
        return body
    if path.startswith("/v3"):
        return {"application/json": body}
    return {rest_v2.MEDIA_TYPE if _of_proxy(path) else REGISTRY_MEDIA_TYPE: body, "application/json": body}


def _content(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    return {media_type: {"schema": shape} for media_type, shape in shapes.items()}


def _refused(names: list[str], operation: Operation) -> set[int]:
    statuses = {406, *operation.refused}
    if names:
        statuses.add(404)
    if operation.body is not None:
        statuses |= {400, 413, 415}
    return statuses


def _error(about: str, path: str) -> dict[str, Any]:
    types = ["application/json"] if _of_proxy(path) else ["application/json", REGISTRY_MEDIA_TYPE]
    return {"description": about, "content": _content(dict.fromkeys(types, ref("Error")))}
