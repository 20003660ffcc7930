"""Answers without an end: how many there may be, and what becomes of them when the broker stops."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.registry import Http

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port")

EVENTS_MAX, TAILS_MAX = 50, 10


def test_streams_are_bounded_and_end_with_the_broker(own_broker: BrokerFactory) -> None:
    running: Any = own_broker({})
    http_ = Http(running.http)
    root = f"/v3/clusters/{http_.get('/v3/clusters').body['data'][0]['cluster_id']}"
    kind = {"Content-Type": "application/json"}
    assert http_.ask("POST", f"{root}/topics", {"topic_name": "orders"}, kind).status == 201
    with ExitStack() as open_now:

        def begin(path: str) -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection(running.http, timeout=60)
            open_now.callback(connection.close)
            connection.request("GET", path)
            return connection.getresponse()

        streams = []
        for path, most in (
            ("/topics/orders/events", EVENTS_MAX),
            ("/console/topics/orders/tail/events", TAILS_MAX),
        ):
            for _ in range(most):
                streams.append(begin(path))
                assert streams[-1].status == 200 and streams[-1].readline()
        one_more = begin("/topics/orders/events")
        assert one_more.status == 429 and json.loads(one_more.read())["error_code"] == 429
        assert begin("/console/topics/orders/tail/events").status == 503
        streams[0].close()
        # One who waits for records of an instance is one of them too.
        assert http_.ask("POST", "/consumers/readers", {"name": "one"}, kind).status == 200
        place = "/consumers/readers/instances/one"
        assert http_.ask("POST", f"{place}/subscription", {"topics": ["orders"]}, kind).status == 204
        waiting = http.client.HTTPConnection(running.http, timeout=60)
        open_now.callback(waiting.close)
        waiting.request("GET", f"{place}/records?timeout=30000")
        running.stop()
        assert waiting.getresponse().read() == b"[]"
        for one in streams[1:]:
            one.read()  # to its regular end: http.client raises where a stream was cut off
    log = running.log_tail()
    assert "ERROR" not in log and "Traceback" not in log
