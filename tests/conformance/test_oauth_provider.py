"""Users and groups of a token provider on every door of a broker: Kafka's listener, HTTP, the command line."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

pytest.importorskip("cryptography")

from tests.conformance.certificates import make_certificates
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.oauth_broker import SCRAPE_TOKEN, OauthBroker
from tests.conformance.test_cli_topics import failed, ok
from tests.conformance.token_provider import TokenProvider
from tests.unit.cli.commands import execute, invoke
from tidelog import Admin, ClientCredentials, NewTopic, Producer, Security, errors

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the broker's settings are those of tidelog serve")

ONE_BROKER = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenProvider]:
    folder = tmp_path_factory.mktemp("provider")
    make_certificates(folder)
    running = TokenProvider(folder)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def broker(provider: TokenProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OauthBroker]:
    running = OauthBroker(tmp_path_factory.mktemp("oauth"), provider, ONE_BROKER)
    running.start()
    with Admin(bootstrap_servers=running.bootstrap, security=running.security("admin")) as admin:
        admin.create_topics([NewTopic("orders-1", partitions=1)])
    yield running
    text = (running.home / "broker.log").read_text(errors="replace")
    assert "Traceback" not in text and "between-brokers" not in text, running.log_tail()
    running.stop()


@pytest.fixture(scope="module")
def admin_file(broker: OauthBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A --command-config of the administrator: the token is in a file."""
    folder = tmp_path_factory.mktemp("admin")
    (folder / "token").write_text(broker.provider.token("admin", 3600, scope="kafka") + "\n")
    return command_config(
        folder, broker, f"sasl.oauthbearer.token.endpoint.url={(folder / 'token').as_uri()}"
    )


def command_config(folder: Path, broker: OauthBroker, *lines: str) -> Path:
    path = folder / "client.properties"
    login = ("security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER")
    path.write_text("\n".join((*login, f"ssl.ca.location={broker.provider.ca}", *lines)))
    return path


def send(broker: OauthBroker, security: Security, topic: str = "orders-1") -> None:
    with Producer(
        bootstrap_servers=broker.bootstrap, security=security, delivery_timeout_ms=20_000
    ) as producer:
        producer.send(topic, b"x").get(30)


def test_rights_of_a_group_are_those_of_whoever_is_in_it(broker: OauthBroker, admin_file: Path) -> None:
    on = ("--bootstrap", broker.bootstrap, "--command-config", str(admin_file))
    staff = broker.security("ann", groups=["office", "staff"])
    with pytest.raises(errors.TopicAuthorizationFailed):
        send(broker, staff)
    granted = ok("roles", "grant", "Group:staff", "producer", "--prefix", "orders", *on)
    assert "Group:staff" in granted
    send(broker, staff)
    for other in (broker.security("ann"), broker.security("ann", groups=["Staff"])):
        with pytest.raises(errors.TopicAuthorizationFailed):
            send(broker, other)
    explained = ok("acls", "explain", "bob", "write", "topic:orders-1", "--group", "staff", *on)
    assert "may write" in explained and "allow Group:staff" in explained


def test_over_http_a_token_brings_the_same_groups(broker: OauthBroker, admin_file: Path) -> None:
    on = ("--bootstrap", broker.bootstrap, "--command-config", str(admin_file))
    ok("roles", "grant", "Group:clerks", "producer", "--prefix", "orders", *on)
    cluster = json.loads(broker.ask("GET", "/v3/clusters", broker.provider.token("ann")).text)
    path = f"/v3/clusters/{cluster['data'][0]['cluster_id']}/topics/orders-1/records"
    body = {"value": {"type": "STRING", "data": "hello"}}
    clerk = broker.provider.token("cat", groups=["clerks"])
    assert json.loads(broker.ask("POST", path, clerk, body).text)["error_code"] == 200
    assert broker.ask("POST", path, broker.provider.token("cat", groups=["guests"]), body).status == 403


def test_a_listener_asks_for_its_own_scopes(broker: OauthBroker) -> None:
    with pytest.raises(errors.SaslAuthenticationFailed):
        send(broker, broker.security("admin", scope="profile"))
    send(broker, broker.security("admin", scope="profile kafka"))
    assert broker.ask("GET", "/v3/clusters", broker.provider.token("admin")).status == 200
    assert "lacks the scope kafka" in broker.log_tail()


def test_a_groups_claim_that_is_none_is_refused(broker: OauthBroker) -> None:
    for groups in ({"staff": True}, [1], 7):
        with pytest.raises(errors.SaslAuthenticationFailed):
            send(broker, broker.security("admin", groups=groups))


def test_our_client_gets_its_tokens_itself(broker: OauthBroker, admin_file: Path) -> None:
    on = ("--bootstrap", broker.bootstrap, "--command-config", str(admin_file))
    ok("roles", "grant", "orders", "producer", "--prefix", "orders", *on)
    before = broker.provider.requests["/token"]
    given = ClientCredentials(
        broker.provider.token_url, "orders", "of-orders", scope="kafka", ca=broker.provider.ca
    )
    login = Security(ca=broker.provider.ca, mechanism="OAUTHBEARER", token=given)
    for _ in range(3):
        send(broker, login)
    assert broker.provider.requests["/token"] == before + 1
    wrong = ClientCredentials(broker.provider.token_url, "orders", "not-it", ca=broker.provider.ca)
    with pytest.raises(errors.SaslAuthenticationFailed, match=r"status 401.*invalid_client") as refused:
        send(broker, Security(ca=broker.provider.ca, mechanism="OAUTHBEARER", token=wrong))
    assert "not-it" not in str(refused.value) + repr(wrong)


def test_librdkafka_gets_its_tokens_itself(broker: OauthBroker, admin_file: Path) -> None:
    on = ("--bootstrap", broker.bootstrap, "--command-config", str(admin_file))
    ok("roles", "grant", "orders", "producer", "--prefix", "orders", *on)
    failed_deliveries: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(broker.provider.ca),
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "orders",
            "sasl.oauthbearer.client.secret": "of-orders",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.token.endpoint.url": broker.provider.token_url,
            "https.ca.location": str(broker.provider.ca),
            "message.timeout.ms": 20_000,
        }
    )
    producer.produce("orders-1", b"x", on_delivery=lambda error, _: error and failed_deliveries.append(error))
    assert producer.flush(30) == 0 and not failed_deliveries


def test_the_command_line_takes_the_settings_of_both_worlds(broker: OauthBroker, tmp_path: Path) -> None:
    url = f"sasl.oauthbearer.token.endpoint.url={broker.provider.token_url}"
    ca, scope = f"https.ca.location={broker.provider.ca}", "sasl.oauthbearer.scope=kafka"
    login = ("sasl.oauthbearer.{}client.id=brokers", "sasl.oauthbearer.{}client.secret=between-brokers")
    for kind in ("", "client.credentials."):
        file = command_config(tmp_path, broker, url, ca, scope, *(line.format(kind) for line in login))
        assert "orders-1" in ok(
            "topics", "list", "--bootstrap", broker.bootstrap, "--command-config", str(file)
        )
    command_config(tmp_path, broker)
    refused = invoke("topics", "list", "--bootstrap", broker.bootstrap, "--command-config", str(file))
    assert "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url" in refused.stderr


def test_the_commands_of_the_registry_log_in(broker: OauthBroker, admin_file: Path, tmp_path: Path) -> None:
    on = ("--registry", broker.site)
    assert ok("schemas", "list", "--json", *on, "--command-config", str(admin_file)).strip() == "[]"
    file = tmp_path / "registry.properties"
    file.write_text(
        f"bearer.auth.token={broker.provider.token('admin')}\nssl.ca.location={broker.provider.ca}\n"
    )
    assert ok("schemas", "list", "--json", *on, "--command-config", str(file)).strip() == "[]"
    file.write_text(f"basic.auth.user.info=nobody:wrong\nssl.ca.location={broker.provider.ca}\n")
    assert "a login is needed" in failed("schemas", "list", *on, "--command-config", str(file))
    assert "certificate" in failed("schemas", "list", *on).lower()
    open_to_all = ("--registry", "http://registry.example:8090", "--command-config", str(admin_file))
    assert "would be readable on the way" in failed("schemas", "list", *open_to_all)


def test_sql_logs_in(broker: OauthBroker, admin_file: Path, tmp_path: Path) -> None:
    lines = (
        f"sasl.oauthbearer.token.endpoint.url={broker.provider.token_url}",
        f"https.ca.location={broker.provider.ca}",
        "sasl.oauthbearer.scope=kafka",
        "sasl.oauthbearer.client.id=brokers",
        "sasl.oauthbearer.client.secret=between-brokers",
    )
    file = command_config(tmp_path, broker, *lines)
    on = ("--bootstrap", broker.bootstrap, "--command-config", str(file), "--home", str(tmp_path / "home"))
    statements = (
        "CREATE TABLE names (id STRING PRIMARY KEY, name STRING) WITH (topic = 'of-sql', partitions = 1, replicas = 1); "
        "SHOW TOPICS;"
    )
    done = execute(
        "sql", "-e", statements, "--until-done", "--json", *on
    )  # a process: Spark starts a JVM in it
    assert done.returncode == 0 and b'"of-sql"' in done.stdout, done.stderr[-2000:]


def test_measuring_logs_in(broker: OauthBroker, admin_file: Path) -> None:
    on = ("--bootstrap", broker.bootstrap, "--command-config", str(admin_file))
    figures = ok(
        "model", "measure", "--consumers", "1,2,3", "--records", "300", "--work-ms", "0", "--json", *on
    )
    assert len(json.loads(figures)["figures"]) == 3


def test_a_new_key_of_the_provider_counts_at_once(broker: OauthBroker, provider: TokenProvider) -> None:
    send(broker, broker.security("admin"))
    old = broker.security("admin")
    provider.rotate()
    time.sleep(0.15)  # tidelog.oauthbearer.jwks.reload.min.ms: a load before may have had its reasons
    send(broker, broker.security("admin"))
    with pytest.raises(errors.SaslAuthenticationFailed):
        send(broker, old)


def test_a_scrape_token_reads_the_metrics_and_nothing_else(broker: OauthBroker) -> None:
    assert "mq_" in broker.ask("GET", "/metrics", SCRAPE_TOKEN).text
    assert broker.ask("GET", "/metrics", "x" + SCRAPE_TOKEN[1:]).status == 401
    for method, path in (
        ("GET", "/v3/clusters"),
        ("GET", "/topics"),
        ("GET", "/console/topics"),
        ("GET", "/subjects"),
        ("POST", "/metrics"),
    ):
        assert broker.ask(method, path, SCRAPE_TOKEN).status == 401, path
    newer = uuid.uuid4().hex
    broker.scrape_tokens.write_text(f"{SCRAPE_TOKEN}\n{newer}\ntoo-short\n")
    deadline = time.monotonic() + 30
    while broker.ask("GET", "/metrics", newer).status != 200:
        assert time.monotonic() < deadline
    assert broker.ask("GET", "/metrics", "too-short").status == 401
    broker.scrape_tokens.write_text(f"{newer}\n")
    while broker.ask("GET", "/metrics", SCRAPE_TOKEN).status != 401:
        assert time.monotonic() < deadline
    broker.scrape_tokens.write_text(f"{SCRAPE_TOKEN}\n")
