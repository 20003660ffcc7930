"""What only one broker knows, asked of it: delivery counts of what it leads, figures of its process."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from tidelog.net.http_request import NoAnswer, NotSent, send

if TYPE_CHECKING:
    from tidelog.gateways.http.surroundings import Surroundings
    from tidelog.types import NodeId

log = logging.getLogger("tidelog.http.console")

WAIT_S = 2.0
ANSWER_BYTES_MAX = 4 << 20


async def ask(around: Surroundings, node: NodeId, address: str) -> Any:
    """What another broker answers, in JSON; None when it cannot be asked."""
    there = around.http_of(node)
    if there is None:
        return None
    try:
        async with asyncio.timeout(WAIT_S):
            answer = await send(there, "GET", address, {"accept": "application/json"}, b"", ANSWER_BYTES_MAX)
        return json.loads(answer.body) if answer.status == 200 else None
    except (NotSent, NoAnswer, TimeoutError, ValueError) as problem:
        log.info("broker %s could not be asked for %s: %s", node, address, problem)
        return None
