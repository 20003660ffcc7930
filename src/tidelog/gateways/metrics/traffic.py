"""Metrics of requests, clients and connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog import errors
from tidelog._speed.log.request_metrics import TIME_BOUNDS_MS
from tidelog.broker.routes import PRODUCE, ROUTES
from tidelog.broker.tallies import Traffic
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.metrics.page import Page

SLICE = 100


def rates(around: Surroundings, page: Page) -> Iterator[None]:
    now = around.figures.pulse.rates()
    page.put("mq_messages_in_per_sec", now.messages_in)
    page.put("mq_messages_out_per_sec", now.messages_out)
    page.put("mq_bytes_in_per_sec", now.bytes_in)
    page.put("mq_bytes_out_per_sec", now.bytes_out)
    yield
    counts = around.partitions.counts()
    page.put("mq_messages_in_total", counts.messages_in)
    page.put("mq_messages_out_total", counts.messages_out)
    page.put("mq_bytes_in_total", counts.bytes_in)
    page.put("mq_bytes_out_total", counts.bytes_out)
    page.put("mq_replication_bytes_in_total", counts.replicated_in)
    page.put("mq_replication_bytes_out_total", around.services.tallies.replicated_out)
    page.put("mq_throttled_fetches_total", around.services.tallies.put_off)
    yield


def requests(around: Surroundings, page: Page) -> Iterator[None]:
    tally = around.services.tallies.requests
    produced = [0] * (len(TIME_BOUNDS_MS) + 1), 0.0
    for key, count, bytes_in, bytes_out, queue_ms, handler_ms, total_ms, times in tally.read():
        api = ROUTES[key].name if key in ROUTES else f"api-{key}"
        page.put("mq_requests_total", count, api)
        page.put("mq_request_bytes_total", bytes_in, api)
        page.put("mq_response_bytes_total", bytes_out, api)
        page.put("mq_request_queue_time_ms_total", queue_ms, api)
        page.put("mq_request_handler_time_ms_total", handler_ms, api)
        page.put_histogram("mq_request_time_ms", TIME_BOUNDS_MS, times, total_ms, api)
        if key == PRODUCE:
            produced = times, total_ms
    page.put_histogram("mq_produce_latency_ms", TIME_BOUNDS_MS, *produced)
    ages = tally.end_to_end
    page.put_histogram("mq_end_to_end_latency_ms", ages.bounds, ages.read(), ages.sum)
    for (key, code), times_told in sorted(tally.errors.items()):
        api = ROUTES[key].name if key in ROUTES else f"api-{key}"
        page.put("mq_request_errors_total", times_told, api, errors.name_of(code))
    yield
    quotas = around.services.gate.quotas
    for kind, times_throttled in sorted(quotas.throttled.items()):
        page.put("mq_throttled_requests_total", times_throttled, kind)
        page.put("mq_throttle_time_ms_total", quotas.throttle_ms[kind], kind)
    sessions = around.services.sessions
    page.put("mq_fetch_sessions", len(sessions))
    page.put("mq_fetch_sessions_evicted_total", sessions.evicted)


def connections(around: Surroundings, page: Page) -> Iterator[None]:
    server, clients = around.figures.server, around.services.tallies.clients
    by_listener: Counter[str] = Counter({listener.name: 0 for listener in around.config.listeners})
    by_client = clients.snapshot()
    in_flight = 0
    for number, connection in enumerate(list(server.connections)):
        by_listener[connection.listener] += 1
        in_flight += connection.in_flight
        name = clients.name_of(connection.client_id)
        traffic = by_client.get(name)
        if traffic is None:
            traffic = by_client[name] = Traffic()
        traffic.connections += 1
        traffic.add(connection)
        if number % SLICE == SLICE - 1:
            yield
    page.put("mq_requests_in_flight", in_flight)
    queued = around.services.queued
    page.put("mq_queued_request_bytes", queued.used)
    page.put("mq_queued_request_bytes_max", queued.most)
    page.put("mq_queued_request_waits_total", queued.waits)
    page.put("mq_opened_batches_total", around.services.opening.batches)
    page.put("mq_opened_bytes_total", around.services.opening.expanded_bytes)
    for listener, count in sorted(by_listener.items()):
        page.put("mq_connections", count, listener)
    audit = around.services.gate.audit
    for (event, outcome), count in sorted(audit.recorded.items()):
        page.put("mq_audit_events_total", count, event, outcome)
    page.put("mq_audit_events_dropped_total", audit.dropped)
    page.put("mq_connections_opened_total", server.opened)
    for bound, count in sorted(server.refused.items()):
        page.put("mq_connections_refused_total", count, bound)
    yield
    for number, (name, traffic) in enumerate(sorted(by_client.items())):
        page.put("mq_client_connections", traffic.connections, name)
        page.put("mq_client_requests_total", traffic.requests, name)
        page.put("mq_client_bytes_in_total", traffic.bytes_in, name)
        page.put("mq_client_bytes_out_total", traffic.bytes_out, name)
        page.put("mq_client_errors_total", traffic.errors, name)
        if number % SLICE == SLICE - 1:
            yield
