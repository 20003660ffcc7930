"""Bytes captured from a running Apache Kafka 4.3.1 (one broker, topic `golden` with three partitions)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.wire import frame
from tidelog.wire.apis import APIS
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

GOLDEN = json.loads((Path(__file__).parents[2] / "data/wire/apache_kafka_4.3.1.json").read_text())
CLASSES: dict[int, tuple[type[Any], type[Any]]] = {
    3: (MetadataRequest, MetadataResponse),
    18: (ApiVersionsRequest, ApiVersionsResponse),
}


def captured(name: str) -> tuple[frame.RequestHeader, Any, Any]:
    """Header, request and response, after checking that both encode to what was captured."""
    request, response = (bytes.fromhex(GOLDEN[name][side]) for side in ("request", "response"))
    header, at = frame.decode_request_header(request)
    version = header.api_version
    request_class, response_class = CLASSES[header.api_key]
    asked = request_class.decode(request, version, at)
    assert frame.encode_request(header, asked.encode(version))[4:] == request
    correlation_id, at = frame.decode_response_header(header.api_key, version, response)
    assert correlation_id == header.correlation_id
    answer = response_class.decode(response, version, at)
    assert (
        frame.encode_response(header.api_key, version, correlation_id, answer.encode(version))[4:] == response
    )
    return header, asked, answer


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_a_real_broker(version: int) -> None:
    header, asked, answer = captured(f"metadata_v{version}")
    assert header == (3, version, version + 20, "gold")
    assert [topic.name for topic in asked.topics] == ["golden"]
    assert [(broker.node_id, broker.host, broker.rack) for broker in answer.brokers] == [
        (1, "127.0.0.1", None)
    ]
    (topic,) = answer.topics
    assert topic.name == "golden"
    assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions] == [
        (0, 1, [1]),
        (1, 1, [1]),
        (2, 1, [1]),
    ]
    assert (topic.topic_id.int != 0) == (version >= 10)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_of_a_real_broker(version: int) -> None:
    _, asked, answer = captured(f"api_versions_v{version}")
    assert asked.client_software_name == ("gold" if version >= 3 else "")
    advertised = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    expected = {api.key: (api.min, api.stable_max) for api in APIS.values() if api.broker}
    expected[0] = (0, APIS[0].max)
    without_a_metrics_plugin = {api.key for api in APIS.values() if "Telemetry" in api.name}
    assert advertised == {key: v for key, v in expected.items() if key not in without_a_metrics_plugin}


def test_a_real_broker_answers_an_api_versions_request_from_the_future_with_version_zero() -> None:
    response = bytes.fromhex(GOLDEN["api_versions_v99"]["response"])
    _, at = frame.decode_response_header(18, 99, response)
    answer = ApiVersionsResponse.decode(response, 0, at)
    assert answer.error_code == 35
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]
