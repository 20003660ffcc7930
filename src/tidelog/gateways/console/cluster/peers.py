"""Asks another broker for what only that broker knows: delivery counts of the partitions it leads, process figures."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.gateways.http.authentication import signed_headers
from tidelog.gateways.http.identity import OF_BROKER
from tidelog.net.http_request import NoAnswer, NotSent, send

if TYPE_CHECKING:
    from tidelog.gateways.http.services import GatewayServices
    from tidelog.types import NodeId

log = logging.getLogger("tidelog.http.console")

WAIT_S = 2.0
ANSWER_BYTES_MAX = 4 << 20


async def ask(around: GatewayServices, node: NodeId, address: str) -> Any:
    """The broker's answer, parsed from JSON; None when the broker cannot be asked."""
    http_address = around.http_of(node)
    if http_address is None:
        return None
    try:
        # What brokers tell each other is for brokers; the pages decide what the user sees of it.
        headers = {"accept": "application/json"} | signed_headers(around.services, OF_BROKER)
        async with asyncio.timeout(WAIT_S):
            answer = await send(
                http_address, "GET", address, headers, b"", ANSWER_BYTES_MAX, around.peer_tls()
            )
        return json.loads(answer.body) if answer.status == 200 else None
    except (NotSent, NoAnswer, TimeoutError, ValueError, TidelogError) as problem:
        log.info("Request to broker %s for %s failed: %s", node, address, problem)
        return None
