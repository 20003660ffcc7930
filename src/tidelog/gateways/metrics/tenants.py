"""What tenants use, for billing; and the part of a page of metrics that a tenant may see."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog.broker.tallies import Traffic
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.metrics.page import Page
from tidelog.metadata.tenants import LIMITS, limits_of, topics_of

SLICE = 100
_OWNED = ("topic", "group", "transactional_id")
_LABEL = re.compile(r'(?:^|[{,])(\w+)="((?:[^"\\]|\\.)*)"')


def tenants(around: Surroundings, page: Page) -> Iterator[None]:
    gate, storage, image = around.services.gate, around.figures.tenant_storage, around.image
    traffic = around.services.tallies.tenants.snapshot()
    for number, connection in enumerate(list(around.figures.server.connections)):
        tenant = gate.tenant(connection.session)
        if tenant is not None:
            used = traffic.setdefault(tenant.name, Traffic())
            used.connections += 1
            used.add(connection)
        if number % SLICE == SLICE - 1:
            yield
    for tenant in sorted(gate.tenants, key=lambda tenant: tenant.name):
        name, used = tenant.name, traffic.get(tenant.name) or Traffic()
        topics = topics_of(image, name)
        page.put("mq_tenant_requests_total", used.requests, name)
        page.put("mq_tenant_bytes_in_total", used.bytes_in, name)
        page.put("mq_tenant_bytes_out_total", used.bytes_out, name)
        page.put("mq_tenant_connections", used.connections, name)
        page.put("mq_tenant_stored_bytes", storage.stored_here(name), name)
        page.put("mq_tenant_topics", len(topics), name)
        page.put("mq_tenant_partitions", sum(len(image.topics[topic].partitions) for topic in topics), name)
        page.put("mq_tenant_full", int(gate.is_full(tenant.prefix)), name)
        for key, limit in sorted((limits_of(image, name) or {}).items()):
            if key in LIMITS:
                page.put("mq_tenant_limit", limit, name, key)
        yield


def is_of_tenant(labels: str, tenant: str, prefix: str) -> bool:
    """Whether a series with these labels (`{name="value",...}`) is a tenant's: it has its name, or names topics, groups and
    transactional ids of the tenant and no others."""
    shows = False
    for name, value in _LABEL.findall(labels):
        if name == "tenant" and value != tenant:
            return False
        if name in _OWNED and not value.startswith(prefix):
            return False
        shows = shows or name == "tenant" or name in _OWNED
    return shows
