"""Asks another broker for what only that broker knows: delivery counts of the partitions it leads, process figures."""

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
    """The broker's answer, parsed from JSON; None when the broker cannot be asked."""
    http_address = around.http_of(node)
    if http_address is None:
        return None
    try:
        async with asyncio.timeout(WAIT_S):
            answer = await send(
                http_address, "GET", address, {"accept": "application/json"}, b"", ANSWER_BYTES_MAX
            )
        return json.loads(answer.body) if answer.status == 200 else None
    except (NotSent, NoAnswer, TimeoutError, ValueError) as problem:
        log.info("broker %s could not be asked for %s: %s", node, address, problem)
        return None
