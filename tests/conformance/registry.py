"""A schema registry as tests see it: plain HTTP, and Confluent's client."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def code(self) -> int:
        return int(self.body["error_code"])


class Http:
    def __init__(self, address: str) -> None:
        self.url = f"http://{address}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Content-Type", CONTENT_TYPE)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                content = answer.read()
                return Answer(answer.status, json.loads(content) if content else None)
        except urllib.error.HTTPError as problem:
            return Answer(problem.code, json.loads(problem.read()))

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def register(self, subject: str, schema: Any, **more: Any) -> Answer:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text, **more})


def record(name: str, *fields: tuple[str, Any] | tuple[str, Any, Any]) -> dict[str, Any]:
    """An Avro record; a third thing of a field is its default."""
    made = []
    for field in fields:
        one = {"name": field[0], "type": field[1]}
        if len(field) == 3:
            one["default"] = field[2]
        made.append(one)
    return {"type": "record", "name": name, "fields": made}
