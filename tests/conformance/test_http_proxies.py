"""Where a request comes from is what the connection says; a header says it only for proxies that the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import free_port
from tests.conformance.test_http_security import SecureBroker, ask, basic, settings

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port")

PATH = "/v3/clusters"
FAILURES = 6
"""One more than a pair of address and user may have in a minute."""


def broker_with(home: Path, more: dict[str, str]) -> SecureBroker:
    port, secure = free_port(), free_port()
    broker = SecureBroker(home, settings(port, secure) | more)
    broker.port, broker.secure_port = port, secure
    broker.start()
    return broker


def fail_from(broker: SecureBroker, address: str) -> None:
    given = basic("bob", f"wrong from {address}") | {"x-forwarded-for": address}
    assert ask(broker, "GET", PATH, headers=given).status == 401


def refusals(broker: SecureBroker) -> list[str]:
    log = (broker.home / "broker.log").read_text()
    return [line.partition(" from ")[2] for line in log.splitlines() if "refused the HTTP login" in line]


def test_nobody_gets_around_the_lock_out_by_claiming_another_address(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, {})
    try:
        for number in range(FAILURES):
            fail_from(broker, f"10.1.2.{number}")
        assert ask(broker, "GET", PATH, headers=basic("bob")).status == 401, "locked out"
        assert all(refusal.startswith("127.0.0.1:") for refusal in refusals(broker)), refusals(broker)
    finally:
        broker.discard()


def test_a_proxy_that_is_trusted_says_who_the_client_is(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, {"tidelog.http.trusted.proxies": "127.0.0.1,10.9.0.0/16"})
    try:
        for _ in range(FAILURES):
            fail_from(broker, "10.1.2.3, 10.9.0.1")
        assert ask(broker, "GET", PATH, headers=basic("bob")).status != 401, "another address is locked out"
        assert all(refusal.startswith("10.1.2.3:") for refusal in refusals(broker)), refusals(broker)
    finally:
        broker.discard()
