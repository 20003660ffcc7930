"""The body of a request: a JSON object of bounded size."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from tidelog.connect.rest.changes import RequestRefused

BODY_BYTES_MAX = 1 << 20


async def object_of(request: Request) -> dict[str, Any]:
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise RequestRefused(415, "send JSON, with the header Content-Type: application/json")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise RequestRefused(413, f"a request has {BODY_BYTES_MAX} bytes at most")
    try:
        body = json.loads(bytes(data))
    except ValueError as problem:
        raise RequestRefused(400, f"not JSON: {problem}") from None
    if not isinstance(body, dict):
        raise RequestRefused(400, "send a JSON object")
    return body
