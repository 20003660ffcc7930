"""Keys and values of a request as bytes: base64, text, JSON, or a value in the newest schema of its subject."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from tidelog.gateways.console.decoding import Decoder
from tidelog.gateways.console.registry import Registry
from tidelog.gateways.console.values import Unreadable
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.surroundings import Surroundings

KINDS = frozenset({"BINARY", "STRING", "JSON", "AVRO", "JSONSCHEMA", "PROTOBUF"})


class Encoder:
    def __init__(self, around: Surroundings) -> None:
        self._decoder = Decoder(Registry(around))

    async def encode(self, kind: str, subject: str, data: Any) -> bytes | None:
        """Raises a `Problem`: 400 for what is not of its kind, 422 for what does not fit its schema."""
        if kind not in KINDS:
            raise Problem(400, f"{kind!r} is no type of data: there are {', '.join(sorted(KINDS))}")
        if kind == "JSON":
            return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "surrogatepass"
            )
        if data is None:
            return None
        if kind in ("BINARY", "STRING"):
            return _plain(kind, data)
        try:
            return await self._decoder.encode(subject, json.dumps(data))
        except Unreadable as problem:
            raise Problem(422, str(problem), 42203) from None


def _plain(kind: str, data: Any) -> bytes:
    if not isinstance(data, str):
        raise Problem(400, f"data of type {kind} is a string")
    try:
        return base64.b64decode(data, validate=True) if kind == "BINARY" else data.encode()
    except (binascii.Error, ValueError):
        raise Problem(400, f"this is not {'base64' if kind == 'BINARY' else 'text in UTF-8'}") from None
