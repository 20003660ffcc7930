"""REST proxy, version 3: a batch of records in one body, each with an id, and the outcome of each."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, body_of, only
from tidelog.gateways.rest.records import FIELDS, begun

BATCH = 42208
ENTRIES_MAX = 1_000
NAME_MAX = 80


async def produce(rest: Rest, request: Request) -> Response:
    """Status 207 with the records that were written and those that failed; a failure does not stop the others."""
    rest.cluster(request)
    topic = rest.topic(request, 40403).name
    body = await body_of(request, bytes_max=None)
    only(body, ("entries",), "a batch", 422)
    entries = _entries(body)
    under_way = [await begun(rest, topic, entry, ("id", *FIELDS)) for entry in entries]
    done = await asyncio.gather(*under_way)
    written, failed = [], []
    for entry, answer in zip(entries, done, strict=True):
        if answer["error_code"] == 200:
            fields = {name: value for name, value in answer.items() if name != "error_code"}
            written.append({"id": entry["id"], **fields})
        else:
            failed.append({"id": entry["id"], **answer})
    return JsonAnswer({"successes": written, "failures": failed}, 207)


def _entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    entries = body.get("entries")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise Problem(422, 'entries must be a non-empty list of {"id", "key", "value"}', BATCH)
    if len(entries) > ENTRIES_MAX:
        raise Problem(422, f"the batch has {len(entries)} entries: send at most {ENTRIES_MAX}", BATCH)
    names = set()
    for entry in entries:
        name = entry.get("id")
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX:
            raise Problem(422, f"the id of an entry must be a string of at most {NAME_MAX} characters", BATCH)
        names.add(name)
    if len(names) < len(entries):
        raise Problem(422, "two entries have the same id", BATCH)
    return entries
