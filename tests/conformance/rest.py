"""Requests to the REST proxy."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from tests.conformance.registry import Answer, Http

Names = Callable[[], str]

Topics = Callable[..., str]

JSON = {"Content-Type": "application/json"}


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def post(http_: Http, path: str, body: Any, kind: str = "application/json") -> Answer:
    return http_.ask("POST", path, body, {"Content-Type": kind})
