"""Asks the other workers of the group, for what only they know."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any

from tidelog.connect.worker import ConnectWorker
from tidelog.net.http_request import NoAnswer, NotSent, send

TIMEOUT_S = 3.0


async def ask_others(
    worker: ConnectWorker, path: str, login: Mapping[str, str], tls: ssl.SSLContext | None
) -> list[Any]:
    """Their answers; a worker that does not answer in time is left out.  `login`: the header of the user who asks."""

    async def ask(address: str) -> Any:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await send(address, "GET", path, login, b"", tls=tls)
            return json.loads(answer.body) if answer.status == 200 else None
        except (NotSent, NoAnswer, TimeoutError, ValueError):
            return None

    others = [address for address in worker.store.status.workers() if address != worker.id]
    return [answer for answer in await asyncio.gather(*map(ask, others)) if answer is not None]
