"""Messages in a schema, for people: also those whose schema is missing, comes later, or cannot be used."""

from __future__ import annotations

import asyncio
import json
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.gateways.console.records import decoder as decoding
from tidelog.gateways.console.records.decoder import Decoder
from tidelog.gateways.console.records.readable import Readable
from tidelog.gateways.http.problem import Problem


class Known:
    """A registry of these schemas, by id."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        self.asked = 0
        self.down = False

    async def ask(self, method: str, *parts: str | int, **query: str) -> Any:
        self.asked += 1
        if self.down:
            raise Problem(503, "nobody leads _schemas")
        assert (method, *parts[:2]) == ("GET", "schemas", "ids")
        if parts[2] not in self.schemas:
            raise Problem(404, "no such schema", 40403)
        return {"schema": json.dumps(self.schemas[int(parts[2])])}


def shown(decoder: Decoder, number: int, payload: bytes) -> Readable:
    data = struct.pack(">bI", 0, number) + payload
    record: Any = SimpleNamespace(key=None, value=data)
    asyncio.run(decoder.prepare([record]))
    return decoder.read(data)


def test_a_schema_that_was_missing_and_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Known()
    decoder = Decoder(registry)  # type: ignore[arg-type]
    assert shown(decoder, 500, b"\x0e").kind == "bytes"
    registry.schemas[500] = "int"
    assert shown(decoder, 500, b"\x0e").kind == "bytes" and registry.asked == 1, "not asked again at once"
    monkeypatch.setattr(decoding, "MISSING_S", 0.0)
    decoder = Decoder(registry)  # type: ignore[arg-type]
    del registry.schemas[500]
    assert shown(decoder, 500, b"\x0e").kind == "bytes"
    registry.schemas[500] = "int"
    assert shown(decoder, 500, b"\x0e") == ("Avro 500", "7")


def test_a_registry_that_does_not_answer_hides_no_message() -> None:
    registry = Known()
    registry.down = True
    found = shown(Decoder(registry), 7, b"\xff")  # type: ignore[arg-type]
    assert found.kind == "bytes, schema 7 is unknown: nobody leads _schemas" and "ff" in found.text


def test_a_schema_that_cannot_be_used_hides_no_message() -> None:
    registry = Known()
    registry.schemas[7] = {"type": "enum", "name": "E", "symbols": ["a", "a"]}
    found = shown(Decoder(registry), 7, b"\xff")  # type: ignore[arg-type]
    assert found.kind.startswith("bytes, not Avro 7: its schema cannot be used: ") and "ff" in found.text


def test_a_message_that_was_written_to_do_harm_is_shown_as_bytes() -> None:
    registry = Known()
    registry.schemas |= {1: {"type": "array", "items": "null"}, 2: ["int", "string"]}
    bad = shown(Decoder(registry), 1, b"\x80\xa8\xd6\xb9\x07\x00")  # type: ignore[arg-type]
    assert bad.kind.startswith("bytes, not Avro 1: ") and "values" in bad.kind
    assert shown(Decoder(registry), 2, b"\x02\x02a") == ("Avro 2", '"a"')  # type: ignore[arg-type]
