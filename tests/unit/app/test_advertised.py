"""The addresses that a broker advertises."""

from __future__ import annotations

import pytest

from tidelog.app.advertised import endpoints_of, http_address, own_address, own_names
from tidelog.config import BrokerConfig
from tidelog.metadata.records import BrokerRecord, Endpoint

HERE = (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
THERE = (Endpoint("PLAINTEXT", "broker1.example", 9092),)


@pytest.mark.parametrize(
    ("given", "bound", "endpoints", "advertised"),
    [
        ({}, ("127.0.0.1", 8090), HERE, "127.0.0.1:8090"),
        ({}, ("127.0.0.1", 8090), THERE, None),
        ({}, ("0.0.0.0", 8090), THERE, "broker1.example:8090"),
        ({}, ("::", 8090), THERE, "broker1.example:8090"),
        ({}, ("10.0.0.7", 8090), THERE, "10.0.0.7:8090"),
        ({"tidelog.http.advertise": "web.example:80"}, ("127.0.0.1", 8090), THERE, "web.example:80"),
        ({"tidelog.http.advertise": "[fd00::7]:0"}, ("::", 8090), THERE, "[fd00::7]:8090"),
        ({}, None, THERE, None),
    ],
)
def test_where_other_brokers_reach_the_http_port(
    given: dict[str, str],
    bound: tuple[str, int] | None,
    endpoints: tuple[Endpoint, ...],
    advertised: str | None,
) -> None:
    assert http_address(BrokerConfig.of(given), bound, endpoints) == advertised


def test_a_listener_on_every_address_is_told_by_the_machines_name() -> None:
    bound = {"PLAINTEXT": ("", 4711)}
    assert endpoints_of(BrokerConfig(), bound, "machine") == (Endpoint("PLAINTEXT", "machine", 4711),)
    assert own_address(bound["PLAINTEXT"]) == "127.0.0.1:4711"


def test_names_of_a_broker() -> None:
    config = BrokerConfig.of({"tidelog.http.advertise": "Web.Example:80"})
    assert own_names(config, THERE, "machine") == {"web.example", "broker1.example", "machine"}


def test_a_registration_without_an_http_address_can_be_read() -> None:
    stored = b'{"endpoints":[["PLAINTEXT","127.0.0.1",9092]],"rack":null,"fenced":false,"leaving":false}'
    assert BrokerRecord.decode(stored) == BrokerRecord(HERE)
    record = BrokerRecord(HERE, http="127.0.0.1:8090")
    assert BrokerRecord.decode(record.encode()) == record
