"""The audit trail through real clients: who logged in, who was denied what, who changed what, on every door; and no secret
in it, nor in any log, error or answer."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
)
from confluent_kafka.admin import ConfigResource as BrokerResource  # type: ignore[attr-defined]

pytest.importorskip("cryptography")

import kafka
import kafka.errors

import tidelog
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import free_port, wait_until
from tests.conformance.secured import (
    PLAIN_PASSWORD,
    SecuredBroker,
    acl,
    kafka_python_options,
    librdkafka_options,
    login_to,
    tidelog_security,
)
from tidelog import Admin, ConfigResource, NewTopic

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no audit topic")

SCRAM_PASSWORD = "planted-scram-password"
WRONG_PASSWORD = "planted-wrong-password"
KEY_PASSWORD = "planted-key-password"
BASIC_PASSWORD = "planted-basic-password"
SETTINGS = {"tidelog.log.levels": "debug", "tidelog.http.authentication": "required"}
TIDELOG = str(Path(sys.executable).parent / "tidelog")
SECONDS = 60


@contextmanager
def audited(home: Path) -> Iterator[SecuredBroker]:
    running = SecuredBroker(home, SETTINGS)
    running.start()
    with admin_of(running) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in ("open", "closed")])
        admin.alter_user_scram_credentials({"ann": SCRAM_PASSWORD}, mechanism="SCRAM-SHA-256")
        admin.create_acls(
            [acl("User:ann", "all", "topic", "open"), acl("User:writer", "write", "topic", "*")]
        )
    yield running
    assert running.alive(), running.log_tail()
    running.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with audited(tmp_path_factory.mktemp("audited")) as running:
        yield running


@pytest.fixture
def flooded(tmp_path: Path) -> Iterator[SecuredBroker]:
    """A broker of its own: within a minute after a flood, no other refusal of the address is an event by itself."""
    with audited(tmp_path) as running:
        yield running


def admin_of(broker: SecuredBroker) -> Admin:
    """As User:ANONYMOUS, who is a super user."""
    return Admin(bootstrap_servers=broker.at("PLAIN"))


def events(broker: SecuredBroker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with tidelog.Consumer(bootstrap_servers=broker.at("PLAIN")) as consumer:
        place = tidelog.TopicPartition("_audit", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            found += [json.loads(record.value or b"{}") for record in consumer.poll(500)]
    return found


def recorded(broker: SecuredBroker, **wanted: Any) -> dict[str, Any]:
    """The first event with these fields, as soon as the topic has it."""
    matching: list[dict[str, Any]] = []

    def there() -> bool:
        matching[:] = [
            event for event in events(broker) if all(event.get(key) == value for key, value in wanted.items())
        ]
        return bool(matching)

    wait_until(there, SECONDS, f"an event with {wanted}")
    return matching[0]


def fails(bootstrap: str, **security: Any) -> str:
    with pytest.raises(tidelog.errors.TidelogError) as caught:
        Admin(bootstrap_servers=bootstrap, security=tidelog.Security(**security)).list_topics()
    return str(caught.value)


def asked(
    broker: SecuredBroker, method: str, path: str, user: str, password: str, body: Any = None
) -> tuple[int, str]:
    host, _, port = broker.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
    proof = base64.b64encode(f"{user}:{password}".encode()).decode()
    try:
        content = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Basic {proof}", "Content-Type": "application/json"}
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_log_ins_of_every_mechanism_are_recorded(broker: SecuredBroker) -> None:
    logins = {
        ("BOTH", "SCRAM-SHA-256"): login_to(broker, "BOTH", "SCRAM-SHA-256").but(password=SCRAM_PASSWORD),
        ("LOGIN", "PLAIN"): login_to(broker, "LOGIN", "PLAIN"),
        ("LOGIN", "OAUTHBEARER"): login_to(broker, "LOGIN", "OAUTHBEARER"),
        ("MUTUAL", "TLS"): login_to(broker, "MUTUAL"),
    }
    for (listener, mechanism), login in logins.items():
        client = AdminClient({**librdkafka_options(login), "client.id": f"from-{listener}"})
        client.poll(0)
        assert client.list_topics(timeout=SECONDS).topics
        event = recorded(
            broker, event="authentication", outcome="success", listener=listener, operation=mechanism
        )
        assert (event["principal"], event["address"]) == ("User:ann", "127.0.0.1")
        if mechanism != "TLS":
            assert event["client_id"] == f"from-{listener}"


def test_refused_log_ins_are_recorded_with_the_name_that_the_client_gave(broker: SecuredBroker) -> None:
    fails(broker.at("LOGIN"), mechanism="SCRAM-SHA-256", username="mallory", password=WRONG_PASSWORD)
    event = recorded(broker, outcome="failure", principal="User:mallory", operation="SCRAM-SHA-256")
    assert event["listener"] == "LOGIN" and "Authentication failed" in event["reason"]
    fails(broker.at("LOGIN"), mechanism="PLAIN", username="mallory", password=WRONG_PASSWORD)
    recorded(broker, outcome="failure", principal="User:mallory", operation="PLAIN")
    fails(broker.at("LOGIN"), mechanism="OAUTHBEARER", token=lambda: broker.token(lifetime_s=-300))
    recorded(broker, outcome="failure", operation="OAUTHBEARER", principal="")
    fails(broker.at("MUTUAL"), ca=broker.home / "ca.pem")
    recorded(broker, outcome="failure", operation="TLS", listener="MUTUAL")
    status, _ = asked(broker, "GET", "/topics", "mallory", BASIC_PASSWORD)
    assert status == 401
    recorded(broker, outcome="failure", listener="HTTP", principal="User:mallory", operation="PLAIN")


def test_denials_are_recorded_and_what_is_left_out_of_a_list_is_none(broker: SecuredBroker) -> None:
    login = login_to(broker, "LOGIN", "PLAIN")
    producer = kafka.KafkaProducer(client_id="the-client", **kafka_python_options(login))
    try:
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            producer.send("closed", b"x").get(SECONDS)
    finally:
        producer.close()
    event = recorded(broker, event="authorization", resource="closed")
    assert (event["outcome"], event["resource_type"], event["principal"]) == ("denied", "TOPIC", "User:ann")
    assert event["client_id"].startswith("the-client")
    assert event["operation"] in ("DESCRIBE", "WRITE")
    with tidelog.Admin(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as admin:
        assert [topic.name for topic in admin.list_topics()] == ["open"]
        with pytest.raises(tidelog.errors.ClusterAuthorizationFailed):
            admin.describe_acls()
    recorded(broker, event="authorization", resource_type="CLUSTER", operation="DESCRIBE")
    status, _ = asked(broker, "GET", "/topics/closed/partitions", "ann", PLAIN_PASSWORD)
    assert status == 403
    recorded(broker, event="authorization", resource="closed", listener="HTTP")
    assert not [event for event in events(broker) if event.get("resource") == "_audit"]


def test_changes_are_recorded_with_what_was_changed_and_by_whom(broker: SecuredBroker) -> None:
    login = login_to(broker, "MUTUAL")
    with admin_of(broker) as admin:
        admin.create_acls(
            [acl("User:ann", "create", "topic", "made"), acl("User:ann", "all", "topic", "made")]
        )
    event = recorded(broker, operation="CreateAcls", resource="made")
    assert event["change"]["principal"] == "User:ann" and event["principal"] == "User:ANONYMOUS"
    with tidelog.Admin(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as admin:
        admin.create_topics([NewTopic("made", 2, 1, configs={"retention.ms": "1000"})])
        with pytest.raises(tidelog.errors.TopicAlreadyExists):
            admin.create_topics([NewTopic("made", 2, 1)])
    event = recorded(broker, operation="CreateTopics", resource="made", outcome="success")
    assert (event["principal"], event["listener"]) == ("User:ann", "MUTUAL")
    assert event["change"] == {
        "partitions": 2,
        "replication_factor": 1,
        "configs": {"retention.ms": "1000"},
    }
    event = recorded(broker, operation="CreateTopics", resource="made", outcome="failure")
    assert event["reason"] == "TOPIC_ALREADY_EXISTS"


def test_offsets_of_a_group_that_somebody_else_moves_are_recorded(broker: SecuredBroker) -> None:
    place = tidelog.TopicPartition("open", 0)
    with tidelog.Consumer("open", bootstrap_servers=broker.at("PLAIN"), group_id="moved") as consumer:
        wait_until(lambda: consumer.poll(100) or consumer.assignment(), SECONDS, "it is a member")
        consumer.commit({place: 0})
    with admin_of(broker) as admin:
        admin.alter_group_offsets("moved", {place: 0})
        admin.alter_group_offsets("of-nobody", {place: 0})
        admin.alter_group_offsets("moved", {place: 1})
    reset = {"resource_type": "GROUP", "resource": "moved", "operation": "OffsetCommit"}
    recorded(broker, change={"offsets": {"open": {"0": 1}}}, **reset)
    found = [event for event in events(broker) if event["operation"] == "OffsetCommit"]
    assert [event["change"] for event in found] == [{"offsets": {"open": {"0": at}}} for at in (0, 1)]
    assert {(event["principal"], event["resource"]) for event in found} == {("User:ANONYMOUS", "moved")}


def test_changes_over_http_are_of_the_user_of_the_request(broker: SecuredBroker) -> None:
    with admin_of(broker) as admin:
        admin.create_acls([acl("User:ann", "all", "topic", "over-http", prefixed=True)])
    status, text = asked(
        broker,
        "POST",
        "/subjects/over-http-value/versions",
        "ann",
        PLAIN_PASSWORD,
        {"schema": '"string"'},
    )
    assert status == 200, text
    event = recorded(broker, operation="REGISTER_SCHEMA", resource="over-http-value")
    assert (event["principal"], event["outcome"], event["listener"]) == ("User:ann", "success", "HTTP")
    status, _ = asked(broker, "PUT", "/config", "ann", PLAIN_PASSWORD, {"compatibility": "NONE"})
    assert status == 403
    recorded(
        broker, event="authorization", operation="ALTER_CONFIGS", resource_type="CLUSTER", listener="HTTP"
    )
    status, text = asked(broker, "GET", "/v3/clusters", "ann", PLAIN_PASSWORD)
    cluster = json.loads(text)["data"][0]["cluster_id"]
    status, text = asked(
        broker,
        "POST",
        f"/v3/clusters/{cluster}/topics",
        "ann",
        PLAIN_PASSWORD,
        {"topic_name": "over-http-topic"},
    )
    assert status == 201, text
    event = recorded(broker, operation="CreateTopics", resource="over-http-topic")
    assert (event["principal"], event["address"]) == ("User:ann", "127.0.0.1")


def test_nobody_writes_audit_events_but_brokers(broker: SecuredBroker) -> None:
    login = login_to(broker, "LOGIN", "SCRAM-SHA-512").but(username="writer")
    with admin_of(broker) as admin:
        admin.alter_user_scram_credentials({"writer": login.password}, mechanism="SCRAM-SHA-512")
    failed: list[Any] = []
    producer = confluent_kafka.Producer(librdkafka_options(login))
    for topic in ("_audit", "open"):
        producer.produce(topic, b"{}", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(SECONDS) == 0
    assert failed[0].code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert failed[1] is None
    recorded(broker, principal="User:writer", operation="CLUSTER_ACTION", outcome="denied")


def test_a_flood_of_refusals_is_a_handful_of_events(flooded: SecuredBroker) -> None:
    before = len(events(flooded))
    login = login_to(flooded, "LOGIN", "PLAIN")
    with tidelog.Admin(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as admin:
        for number in range(500):
            with pytest.raises(tidelog.errors.TidelogError):
                admin.delete_topics([f"none-{number}"])
    status, page = asked_metrics(flooded)
    counted = [line for line in page.splitlines() if line.startswith("mq_audit_events_total")]
    denied = next(line for line in counted if 'event="authorization"' in line and 'outcome="denied"' in line)
    assert status == 200 and float(denied.split()[-1]) >= 500, counted
    assert len(events(flooded)) - before < 100


def asked_metrics(broker: SecuredBroker) -> tuple[int, str]:
    with admin_of(broker) as admin:
        admin.create_acls([acl("User:ann", "describe", "cluster", "kafka-cluster")])
    return asked(broker, "GET", "/metrics", "ann", PLAIN_PASSWORD)


def audit(broker: SecuredBroker, *words: str) -> subprocess.CompletedProcess[str]:
    command = [TIDELOG, "audit", "--bootstrap", broker.at("PLAIN"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)


def test_the_command_filters(broker: SecuredBroker) -> None:
    fails(broker.at("LOGIN"), mechanism="PLAIN", username="eve\x1b[2J", password=WRONG_PASSWORD)
    recorded(broker, principal="User:eve\x1b[2J")
    login = login_to(broker, "LOGIN", "PLAIN")
    with (
        tidelog.Admin(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as admin,
        pytest.raises(tidelog.errors.TidelogError),
    ):
        admin.delete_topics(["none-to-filter"])
    recorded(broker, resource="none-to-filter", outcome="denied")
    everything = audit(broker, "--json")
    assert everything.returncode == 0, everything.stderr
    all_events = [json.loads(line) for line in everything.stdout.splitlines()]
    denied = [json.loads(line) for line in audit(broker, "--json", "--outcome", "denied").stdout.splitlines()]
    assert denied == [event for event in all_events if event["outcome"] == "denied"] != []
    ann = [json.loads(line) for line in audit(broker, "--json", "--user", "ann").stdout.splitlines()]
    assert ann and {event["principal"] for event in ann} == {"User:ann"}
    text = audit(broker, "--user", "eve\x1b[2J").stdout
    assert "User:eve" in text and "\x1b" not in text
    assert audit(broker, "--since", "-1d", "--event", "change").stdout.count("\n") == sum(
        event["event"] == "change" for event in all_events
    )
    assert audit(broker, "--since", "2100-01-01").stdout == ""
    wrong = audit(broker, "--since", "nonsense")
    assert wrong.returncode == 2 and "how long ago" in wrong.stderr
    missing = audit(broker, "--topic", "nowhere")
    assert missing.returncode == 1 and "tidelog.audit.enable" in missing.stderr


def test_the_command_follows(broker: SecuredBroker) -> None:
    command = [
        TIDELOG,
        "audit",
        "--bootstrap",
        broker.at("PLAIN"),
        "--follow",
        "--json",
        "--resource",
        "followed",
    ]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        with admin_of(broker) as admin:
            admin.create_topics([NewTopic("followed", 1, 1)])
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["operation"] == "CreateTopics"
    finally:
        following.kill()
        following.wait()


def test_secrets_are_nowhere(broker: SecuredBroker) -> None:
    """In no event, log line, error, answer to DescribeConfigs, or page."""
    shown = [
        fails(
            broker.at("BOTH"),
            ca=broker.home / "ca.pem",
            mechanism="PLAIN",
            username="u",
            password=WRONG_PASSWORD,
        )
    ]
    client = AdminClient(librdkafka_options(login_to(broker, "PLAIN")))
    for name in ("listener.name.both.ssl.key.password", "listener.name.both.ssl.key.pasword"):
        entry = ConfigEntry(name, KEY_PASSWORD, incremental_operation=AlterConfigOpType.SET)
        resource = BrokerResource(BrokerResource.Type.BROKER, "1", incremental_configs=[entry])
        for done in client.incremental_alter_configs([resource]).values():
            error = done.exception(SECONDS)
            shown.append(str(error))
    token = broker.token()
    with tidelog.Admin(
        bootstrap_servers=broker.at("LOGIN"),
        security=tidelog.Security(mechanism="OAUTHBEARER", token=lambda: token),
    ) as admin:
        admin.list_topics()
    expired = broker.token(lifetime_s=-300)
    shown.append(fails(broker.at("LOGIN"), mechanism="OAUTHBEARER", token=lambda: expired))
    shown.append(asked(broker, "GET", "/topics", "ann", BASIC_PASSWORD)[1])
    recorded(broker, operation="IncrementalAlterConfigs", resource="1")
    described = client.describe_configs([BrokerResource(BrokerResource.Type.BROKER, "1")])
    for done in described.values():
        shown += [f"{name}={entry.value}" for name, entry in done.result(SECONDS).items()]
    shown += [asked_metrics(broker)[1], audit(broker).stdout, audit(broker, "--json").stdout]
    shown += [json.dumps(events(broker)), broker.log_text()]
    secrets = {
        "the password of PLAIN": PLAIN_PASSWORD,
        "the password of SCRAM": SCRAM_PASSWORD,
        "a wrong password": WRONG_PASSWORD,
        "the password of a key": KEY_PASSWORD,
        "the password of a request": BASIC_PASSWORD,
        "a Basic header": base64.b64encode(f"ann:{BASIC_PASSWORD}".encode()).decode(),
        "the key of delegation tokens": "only-brokers-know-this",
        "a token": token,
        "an expired token": expired.split(".")[2],
    }
    for what, secret in secrets.items():
        for text in shown:
            at = text.find(secret)
            assert at < 0, f"{what} is in {text[max(0, at - 200) : at + 50]!r}"


def test_events_are_there_after_a_stop_and_a_start(tmp_path: Path) -> None:
    broker = SecuredBroker(tmp_path, SETTINGS)
    broker.start()
    try:
        with admin_of(broker) as admin:
            admin.create_topics([NewTopic("last", 1, 1)])
        broker.stop()
        broker.start()
        recorded(broker, operation="CreateTopics", resource="last")
        with admin_of(broker) as admin:
            topic = ConfigResource("topic", "_audit")
            configs = {entry.name: entry.value for entry in admin.describe_configs(topic)[topic]}
            assert configs["retention.bytes"] == str(1 << 30)
    finally:
        broker.discard()


def test_without_log_ins_there_is_no_audit_topic_unless_asked_for(tmp_path: Path) -> None:
    from tests.conformance.tidelog_broker import TidelogBroker

    def names(settings: dict[str, str], wanted: Callable[[set[str]], bool]) -> None:
        broker = TidelogBroker(tmp_path / str(len(settings)), settings)
        broker.port = free_port()
        broker.start()
        try:
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.create_topics([NewTopic("made", 1, 1)])
                wait_until(
                    lambda: wanted({topic.name for topic in admin.list_topics(internal=True)}),
                    SECONDS,
                    "topics",
                )
        finally:
            broker.discard()

    names({}, lambda topics: topics == {"made"})
    names({"tidelog.audit.enable": "true"}, lambda topics: topics == {"made", "_audit"})
