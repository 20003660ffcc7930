"""`/metrics`, for Prometheus.  A user of a tenant gets the series of the tenant, and no others.

A page of many thousand series is collected in short steps; between them producers and consumers are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from time import perf_counter

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tidelog.access.tenants import Tenant
from tidelog.gateways.http import identity, rights
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics import processes
from tidelog.gateways.metrics.clients import clients
from tidelog.gateways.metrics.groups import groups, lag, share_lag, transactions
from tidelog.gateways.metrics.page import CONTENT_TYPE, Page, Shows
from tidelog.gateways.metrics.partition_ends import PartitionEnds
from tidelog.gateways.metrics.process import open_files, process
from tidelog.gateways.metrics.remote import remote_storage
from tidelog.gateways.metrics.replication import metadata, partitions
from tidelog.gateways.metrics.storage import DiskProbe, compaction, damage, directories
from tidelog.gateways.metrics.tenants import is_of_tenant, tenants
from tidelog.gateways.metrics.traffic import connections, rates, requests

TURN_S = 0.0005


class Collector:
    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self._disks = DiskProbe(around)
        self._ends = PartitionEnds(around)
        self._one_at_a_time = asyncio.Lock()

    async def page(self) -> Page:
        async with self._one_at_a_time:
            began = perf_counter()
            *_, files = await asyncio.gather(
                self._disks.look(), self._ends.look(), asyncio.to_thread(open_files)
            )
            page = Page(self._around.config.tidelog_metrics_series_max)
            for steps in self._steps(page, files):
                await _in_turns(steps)
            page.put("mq_metrics_left_out_series", page.left_out)
            page.put("mq_metrics_collect_ms", round(1000 * (perf_counter() - began), 3))
            return page

    def _steps(self, page: Page, files: int) -> Iterator[Iterator[None]]:
        around = self._around
        yield rates(around, page)
        yield requests(around, page)
        yield connections(around, page)
        yield clients(around, page)
        yield tenants(around, page)
        yield metadata(around, page)
        yield partitions(around, page)
        yield directories(around, page, self._disks)
        yield compaction(around, page)
        yield damage(around, page)
        yield remote_storage(around, page)
        yield groups(around, page)
        yield lag(around, page, self._ends)
        yield share_lag(around, page, self._ends)
        yield transactions(around, page)
        yield process(around, page, files)


async def _in_turns(steps: Iterator[None]) -> None:
    turn_ends = perf_counter() + TURN_S
    for _ in steps:
        if perf_counter() >= turn_ends:
            await asyncio.sleep(0)
            turn_ends = perf_counter() + TURN_S


def _shows(tenant: Tenant | None) -> Shows | None:
    return None if tenant is None else lambda labels: is_of_tenant(labels, tenant.name, tenant.prefix)


async def _told(page: Page, shows: Shows | None) -> AsyncIterator[bytes]:
    for family in page.families(shows):
        yield family
        await asyncio.sleep(0)


def routes(around: GatewayServices) -> list[BaseRoute]:
    collector = Collector(around)

    async def metrics(request: Request) -> Response:
        session = identity.session()
        tenant = None if session is None else around.services.gate.tenant(session)
        if tenant is None or not tenant.exists:
            rights.check(around, request, "/metrics")
        page, shows = await collector.page(), _shows(tenant)
        others = processes.siblings(around) if request.query_params.get("process") != processes.OWN else []
        if not others:
            return StreamingResponse(_told(page, shows), media_type=CONTENT_TYPE)
        own = processes.sections_of(b"".join(page.families()))
        pages = {around.node_id: own} | await processes.pages_of(around, others)
        return StreamingResponse(processes.merged(pages, shows), media_type=CONTENT_TYPE)

    return [Route("/metrics", metrics)]
