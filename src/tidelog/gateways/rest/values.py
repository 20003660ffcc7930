"""Keys and values of a request as bytes: base64, text, JSON, or a value in a schema that the request names."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

from tidelog.gateways.http.json_text import written
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, number, only
from tidelog.gateways.rest.schemas import TYPES, ChosenSchema, Strategy

PLAIN = ("BINARY", "STRING", "JSON")
KINDS = (*PLAIN, *TYPES)
WHICH = ("schema_id", "schema_version", "schema")
NO_SCHEMA = {"key": 42201, "value": 42202}


class Side(NamedTuple):
    """A key or a value as bytes, and what the answer says of it."""

    data: bytes | None
    answer_fields: dict[str, Any]


def plain(kind: str, data: Any) -> bytes | None:
    """The bytes of data of a type; null is no data, for JSON, too."""
    if data is None:
        return None
    if kind == "JSON":
        return written(data)
    if not isinstance(data, str):
        raise Problem(400, f"data of type {kind} must be a string")
    try:
        return base64.b64decode(data, validate=True) if kind == "BINARY" else data.encode()
    except (binascii.Error, ValueError):
        raise Problem(400, f"the data is not {'base64' if kind == 'BINARY' else 'UTF-8 text'}") from None


async def side_of(rest: Rest, topic: str, given: dict[str, Any], which: str) -> Side:
    """The key or value of a record of version 3: {"type", "data"}, and the schema."""
    side = given.get(which)
    if side is None:
        return Side(None, {})
    if not isinstance(side, dict):
        raise Problem(400, f'a {which} is {{"type": ..., "data": ...}}')
    only(side, ("type", "data", *WHICH, "subject", "subject_name_strategy"), f"a {which}")
    kind = side.get("type")
    if kind is not None and kind not in KINDS:
        raise Problem(400, f"{kind!r} is not a type of data: use {', '.join(KINDS)}")
    data = side.get("data")
    if kind in PLAIN:
        for name in (*WHICH, "subject", "subject_name_strategy"):
            if side.get(name) is not None:
                raise Problem(400, f"{which}.{name} needs data with a schema, and {kind} has none")
        made = plain(kind, data)
        return Side(made, {which: {"type": kind, "size": len(made or b"")}})
    chosen = await _chosen(rest, topic, side, which)
    if kind is not None and chosen.codec.kind != kind:
        raise Problem(400, f"schema {chosen.id} of {chosen.subject!r} is {chosen.codec.kind}, not {kind}")
    made = None if data is None else chosen.encode(data)
    fields = {
        "type": chosen.codec.kind,
        "subject": chosen.subject,
        "schema_id": chosen.id,
        "schema_version": chosen.version,
        "size": len(made or b""),
    }
    return Side(made, {which: fields})


async def _chosen(rest: Rest, topic: str, side: dict[str, Any], which: str) -> ChosenSchema:
    named = [name for name in WHICH if side.get(name) is not None]
    if len(named) > 1:
        raise Problem(400, f"{which} has {named[0]} and {named[1]}: use one of them")
    subject, by = side.get("subject"), side.get("subject_name_strategy")
    if subject is not None and by is not None:
        raise Problem(400, f"{which} has subject and subject_name_strategy: use one of them")
    if subject is not None and (not isinstance(subject, str) or not subject):
        raise Problem(400, f"{which}.subject must be a string")
    if by is not None and by not in Strategy.NAMES:
        raise Problem(
            400, f"{which}.subject_name_strategy must be one of {', '.join(Strategy.NAMES)}, not {by!r}"
        )
    strategy = Strategy(by or "TOPIC_NAME", which)
    if named == ["schema_id"]:
        wanted = number(side["schema_id"], f"{which}.schema_id", 1)
        return await rest.schemas.of_id(subject, wanted, topic, strategy)
    if named == ["schema"]:
        text, kind = side["schema"], side.get("type")
        if not isinstance(text, str):
            raise Problem(400, f"{which}.schema must be the text of a schema")
        if kind is None:
            raise Problem(400, f"{which}.schema needs a type: {', '.join(TYPES)}")
        return await rest.schemas.given(subject, kind, text, topic, strategy)
    if subject is None:
        if not strategy.by_topic:
            raise Problem(400, f"subject_name_strategy {by} needs a schema or a schema_id")
        subject = strategy(topic, None)
    if named:
        return await rest.schemas.of_version(
            subject, number(side["schema_version"], f"{which}.schema_version", 1)
        )
    return await rest.schemas.newest(subject)


async def chosen_in_v2(rest: Rest, topic: str, kind: str, body: dict[str, Any], which: str) -> ChosenSchema:
    """The schema that {which}_schema_id or {which}_schema names; without them, the latest of the topic."""
    number_given, text = body.get(f"{which}_schema_id"), body.get(f"{which}_schema")
    if number_given is not None and text is not None:
        raise Problem(422, f"the body has {which}_schema and {which}_schema_id: use one of them")
    strategy = Strategy("TOPIC_NAME", which)
    if number_given is not None:
        wanted = number(number_given, f"{which}_schema_id", 1, status=422)
        chosen = await rest.schemas.of_id(None, wanted, topic, strategy)
    elif text is not None:
        if not isinstance(text, str):
            raise Problem(422, f"{which}_schema must be the text of a schema")
        chosen = await rest.schemas.given(None, kind, text, topic, strategy)
    else:
        try:
            chosen = await rest.schemas.newest(strategy(topic, None))
        except Problem as problem:
            if problem.status >= 500:
                raise
            message = f"records have a {which}, and the body has no {which}_schema or {which}_schema_id: {problem.message}"
            raise Problem(422, message, NO_SCHEMA[which]) from None
    if chosen.codec.kind != kind:
        raise Problem(
            422, f"schema {chosen.id} of {chosen.subject!r} is {chosen.codec.kind}, not {kind}", 42207
        )
    return chosen
