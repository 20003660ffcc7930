"""One page for all processes of `tidelog serve --processes`: each series gets the label `process`, the id of the broker.

The process that is asked asks the others, with `?process=own`, for theirs."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING

from tidelog.errors import TidelogError
from tidelog.gateways.http.authentication import signed_headers
from tidelog.gateways.http.identity import OF_BROKER
from tidelog.gateways.metrics.families import FAMILIES
from tidelog.gateways.metrics.page import Shows, head_of, labels_in
from tidelog.net.http_request import NoAnswer, NotSent, send
from tidelog.types import NodeId

if TYPE_CHECKING:
    from tidelog.gateways.http.services import GatewayServices

log = logging.getLogger("tidelog.http.metrics")

WAIT_S = 5.0
OWN = "own"
UP = "mq_process_up"

_FAMILY = re.compile(rb"^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) ")
_ROW = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)?", re.MULTILINE)

Sections = Mapping[str, bytes]
"""The rows of each family on a page."""


def siblings(around: GatewayServices) -> list[NodeId]:
    """The other brokers of the unit; empty if this broker is a process of its own."""
    first, count = around.config.tidelog_processes_first, around.config.tidelog_processes
    if first < 0:
        return []
    return [NodeId(node) for node in range(first, first + int(count)) if node != around.node_id]


async def pages_of(around: GatewayServices, nodes: Iterable[NodeId]) -> dict[NodeId, Sections | None]:
    """None for a process that did not answer."""
    nodes = list(nodes)
    answers = await asyncio.gather(*(_page_of(around, node) for node in nodes))
    return dict(zip(nodes, answers, strict=True))


async def _page_of(around: GatewayServices, node: NodeId) -> Sections | None:
    address = around.http_of(node)
    if address is None:
        return None
    try:
        headers = signed_headers(around.services, OF_BROKER)
        async with asyncio.timeout(WAIT_S):
            answer = await send(
                address, "GET", f"/metrics?process={OWN}", headers, b"", tls=around.peer_tls()
            )
    except (NotSent, NoAnswer, TimeoutError, TidelogError) as problem:
        log.info("process %s did not give its metrics: %s", node, problem)
        return None
    return await asyncio.to_thread(sections_of, answer.body) if answer.status == 200 else None


def sections_of(page: bytes) -> Sections:
    sections: dict[str, bytes] = {}
    for part in page.split(b"# HELP ")[1:]:
        _, _, rest = part.partition(b"\n")
        kind, _, rows = rest.partition(b"\n")
        named = _FAMILY.match(kind + b" ")
        if named is not None:
            sections[named[1].decode()] = rows
    return sections


async def merged(pages: Mapping[NodeId, Sections | None], shows: Shows | None) -> AsyncIterator[bytes]:
    """A family at a time, in the order of the table.  `shows`: which series a tenant may see."""
    for name in FAMILIES:
        rows = "".join(
            labelled(sections[name].decode(), node, shows)
            for node, sections in pages.items()
            if sections is not None and name in sections
        )
        if name == UP and shows is None:
            rows = "".join(
                f'{UP}{{process="{node}"}} {int(sections is not None)}\n' for node, sections in pages.items()
            )
        if rows:
            yield (head_of(name) + rows).encode()
        await asyncio.sleep(0)


def labelled(rows: str, node: int, shows: Shows | None) -> str:
    if shows is not None:
        rows = "".join(f"{row}\n" for row in rows.splitlines() if shows(labels_in(row)))
    label = f'{{process="{node}"'
    return _ROW.sub(lambda row: f"{row[1]}{label}{',' if row[2] else '}'}", rows)
