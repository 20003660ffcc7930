"""Kafka's own command line tools on a listener with TLS, SCRAM and ACLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.conformance import apache_kafka
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.secured import PASSWORD, SecuredBroker
from tidelog import Admin

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the broker's settings are those of tidelog serve")

SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required {};"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    if reason := apache_kafka.resolve_jars():
        pytest.skip(reason)
    started = SecuredBroker(tmp_path_factory.mktemp("tools"), {"group.initial.rebalance.delay.ms": "0"})
    started.start()
    with Admin(bootstrap_servers=started.bootstrap) as admin:
        admin.alter_user_scram_credentials({"admin": PASSWORD}, mechanism="SCRAM-SHA-512")
    yield started
    assert "Traceback" not in started.log_text(), started.log_tail()
    started.stop()


def login_file(broker: SecuredBroker, options: str, mechanism: str = "SCRAM-SHA-512") -> Path:
    path = broker.home / f"login-{abs(hash(options))}.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": SCRAM_LOGIN.format(options),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.home / "ca.pem"),
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


def user(name: str) -> str:
    return f'username="{name}" password="{PASSWORD}"'


def test_users_acls_and_records_with_kafkas_tools(broker: SecuredBroker) -> None:
    at = ("--bootstrap-server", broker.at("BOTH"))
    as_admin = ("--command-config", str(login_file(broker, user("admin"))))
    secret = f"SCRAM-SHA-512=[iterations=4096,password={PASSWORD.replace(',', '').replace('=', '')}]"
    apache_kafka.tool("topics", *at, *as_admin, "--create", "--topic", "orders")
    changed = apache_kafka.tool(
        "configs",
        *at,
        *as_admin,
        "--alter",
        "--add-config",
        secret,
        "--entity-type",
        "users",
        "--entity-name",
        "bob",
    )
    assert "Completed updating config for user bob" in changed
    shown = apache_kafka.tool("configs", *at, *as_admin, "--describe", "--entity-type", "users")
    assert "SCRAM-SHA-512=iterations=4096" in shown and "bob" in shown

    add = ("acls", *at, *as_admin, "--add", "--allow-principal", "User:bob")
    apache_kafka.tool(*add, "--producer", "--topic", "orders")
    listed = apache_kafka.tool("acls", *at, *as_admin, "--list", "--topic", "orders")
    assert "principal=User:bob" in listed and "operation=WRITE" in listed

    as_bob = login_file(broker, user("bob").replace(PASSWORD, PASSWORD.replace(",", "").replace("=", "")))
    produce = ("--topic", "orders", "--producer.config", str(as_bob))
    apache_kafka.tool("console-producer", *at, *produce, stdin="hello\n")
    read = ("--topic", "orders", "--group", "bobs", "--from-beginning", "--timeout-ms", "8000")
    refused = apache_kafka.java(
        apache_kafka.TOOLS["console-consumer"], *at, *read, "--consumer.config", str(as_bob)
    )
    assert "AuthorizationException" in refused.stdout + refused.stderr
    apache_kafka.tool(*add, "--consumer", "--topic", "orders", "--group", "bobs")
    consumed = apache_kafka.tool(
        "console-consumer", *at, *read, "--max-messages", "1", "--consumer.config", str(as_bob)
    )
    assert "hello" in consumed

    wrong = apache_kafka.java(
        apache_kafka.TOOLS["topics"],
        *(*at, "--list", "--command-config", str(login_file(broker, 'username="bob" password="guess"'))),
    )
    assert wrong.returncode != 0 and "SaslAuthenticationException" in wrong.stdout + wrong.stderr


def test_a_delegation_token_of_kafkas_tool_logs_in(broker: SecuredBroker) -> None:
    at = ("--bootstrap-server", broker.at("BOTH"))
    as_admin = ("--command-config", str(login_file(broker, user("admin"))))
    made = apache_kafka.tool("delegation-tokens", *at, *as_admin, "--create", "--max-life-time-period", "-1")
    token = re.search(r"^(\S{20,})\s+(\S{40,})\s", made, re.MULTILINE)
    assert token is not None, made
    options = f'username="{token[1]}" password="{token[2]}" tokenauth="true"'
    with_token = ("--command-config", str(login_file(broker, options, "SCRAM-SHA-256")))
    assert "__nothing" not in apache_kafka.tool("topics", *at, "--list", *with_token)
    apache_kafka.tool(
        "delegation-tokens", *at, *as_admin, "--expire", "--expiry-time-period", "-1", "--hmac", token[2]
    )
    gone = apache_kafka.java(apache_kafka.TOOLS["topics"], *at, "--list", *with_token)
    assert gone.returncode != 0 and "SaslAuthenticationException" in gone.stdout + gone.stderr
