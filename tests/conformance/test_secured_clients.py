"""Other people's clients and our own on listeners with TLS and SASL: who is let in, who is not, and what is told of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("cryptography")


from tests.conformance.conftest import ON_KAFKA
from tests.conformance.secured import (
    CLIENTS,
    PASSWORD,
    PLAIN_PASSWORD,
    SecuredBroker,
    acl,
    login_to,
)
from tidelog import Admin

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the broker's settings are those of tidelog serve")

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
DOORS = [(listener, mechanism) for listener in ("LOGIN", "BOTH") for mechanism in MECHANISMS]
VALUES = [b"one", b"two", b"three"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), {"group.initial.rebalance.delay.ms": "0"})
    started.start()
    with Admin(bootstrap_servers=started.bootstrap) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            admin.alter_user_scram_credentials({"ann": PASSWORD, "bob": PASSWORD}, mechanism=mechanism)
        rights = [("topic", "write"), ("topic", "read"), ("topic", "create"), ("group", "read")]
        admin.create_acls(
            acl("User:ann", operation, kind, "ann-", prefixed=True) for kind, operation in rights
        )
    yield started
    assert "Traceback" not in started.log_text(), started.log_tail()
    for secret in (PASSWORD, PLAIN_PASSWORD, "only-brokers-know-this"):
        assert secret not in started.log_text()
    started.stop()


def new_name() -> str:
    return f"ann-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("listener", "mechanism"), DOORS)
def test_every_client_logs_in_with_every_mechanism(
    broker: SecuredBroker, client: str, listener: str, mechanism: str
) -> None:
    name = new_name()
    assert sorted(CLIENTS[client](login_to(broker, listener, mechanism), name, name, VALUES)) == sorted(
        VALUES
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_certificate_says_who_the_client_is(broker: SecuredBroker, client: str) -> None:
    """It maps to ann, who alone has rights on the topic."""
    name = new_name()
    assert sorted(CLIENTS[client](login_to(broker, "MUTUAL"), name, name, VALUES)) == sorted(VALUES)
