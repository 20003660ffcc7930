"""Brokers that come to each other with tokens of a provider, or with certificates alone: replication works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.conformance.certificates import make_certificates
from tests.conformance.process import wait_until
from tests.conformance.token_provider import TokenProvider
from tests.faults.test_dev import Dev, new_dev
from tidelog import Admin, NewTopic, Producer, Security

__all__ = ["new_dev"]

SECONDS_MAX = 180


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[TokenProvider]:
    make_certificates(tmp_path)
    running = TokenProvider(tmp_path)
    running.start()
    yield running
    running.stop()


def by_tokens(provider: TokenProvider) -> tuple[dict[str, str], Security]:
    token = provider.token("admin", 3600)
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "brokers",
        "sasl.oauthbearer.client.credentials.client.secret": "between-brokers",
        "tidelog.oauthbearer.truststore.location": str(provider.ca),
        "super.users": "User:brokers;User:admin",
    }, Security(ca=provider.ca, mechanism="OAUTHBEARER", token=lambda: token)


def by_certificates(provider: TokenProvider) -> tuple[dict[str, str], Security]:
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
        "super.users": "User:broker;User:client",
    }, Security(
        ca=provider.ca, certificate=provider.folder / "client.pem", key=provider.folder / "client.key"
    )


@pytest.mark.parametrize("way", [by_tokens, by_certificates])
def test_brokers_copy_from_each_other(
    way: Callable[[TokenProvider], tuple[dict[str, str], Security]],
    new_dev: Callable[..., Dev],
    provider: TokenProvider,
) -> None:
    dev = new_dev(3)
    settings, security = way(provider)
    dev.settings = settings | {
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(provider.folder / "broker.pem"),
        "ssl.truststore.location": str(provider.ca),
        "authorizer.class.name": "tidelog",
    }
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    with Admin(bootstrap_servers=dev.addresses, security=security) as admin:
        admin.create_topics([NewTopic("kept", partitions=3, replication_factor=3)])

        def in_sync() -> bool:
            partitions = admin.describe_topics(["kept"])["kept"].partitions
            return all(len(one.in_sync) == 3 for one in partitions)

        wait_until(in_sync, SECONDS_MAX, "all replicas are in sync")
        with Producer(bootstrap_servers=dev.addresses, security=security, acks="all") as producer:
            for number in range(30):
                producer.send("kept", b"%d" % number, partition=number % 3)
            producer.flush()
        assert in_sync()
    for number in (1, 2, 3):
        log = (dev.folder / f"broker-{number}.log").read_text(errors="replace")
        assert "between-brokers" not in log and "Traceback" not in log, log[-3000:]
    code, said = dev.end()
    assert code == 0, said
