"""Two tenants on one broker, through clients of three libraries, the command line, and every HTTP door."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

from tests.conformance.conftest import ON_KAFKA, SETTINGS
from tests.conformance.process import free_port
from tests.conformance.test_cli_topics import failed, ok
from tests.conformance.test_http_security import LOGIN, Answer, SecureBroker, ask, basic, routes
from tests.unit.cli.commands import invoke
from tidelog import Security
from tidelog.aio import Admin, NewTopic

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no tenants")

PASSWORDS = {
    "root": "r-secret",
    "acme/ann": "a-secret",
    "zeta/zoe": "z-secret",
    "gone/eve": "e-secret",
    "bob": "b-secret",
}
HIDDEN = ("zeta.", "plain-orders", "zeta/", "zoe")
SECONDS = 30


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """Without an authorizer: everybody may do everything within their tenant.  root and bob are of no tenant at first."""
    port, secure = free_port(), free_port()
    settings = SETTINGS | {
        "listeners": f"PLAIN://127.0.0.1:{port},SEC://127.0.0.1:{secure}",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SEC:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sec.plain.sasl.jaas.config": f'{LOGIN}user_root="{PASSWORDS["root"]}";',
        "connection.failed.authentication.delay.ms": "20",
        "auto.create.topics.enable": "true",
        "tidelog.http.authentication": "required",
    }
    running = SecureBroker(tmp_path_factory.mktemp("shared"), settings)
    running.port, running.secure_port = port, secure
    running.start()
    on = ("--bootstrap", f"127.0.0.1:{port}")
    for tenant in ("acme", "zeta"):
        ok("tenants", "create", tenant, "topics_max=5", "partitions_max=8", *on)
    asyncio.run(_fill(f"127.0.0.1:{port}"))
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


async def _fill(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        scram = {name: password for name, password in PASSWORDS.items() if name != "root"}
        await admin.alter_user_scram_credentials(scram, mechanism="SCRAM-SHA-256", iterations=4096)
        names = ("acme.orders", "zeta.orders", "plain-orders")
        await admin.create_topics([NewTopic(name, 1, 1) for name in names])
    for name in names:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        producer.produce(name, b"of " + name.encode())
        producer.flush(SECONDS)
    for group, topic in (("acme.g", "acme.orders"), ("zeta.g", "zeta.orders"), ("plain-g", "plain-orders")):
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
        consumer.close()


def confluent(shared: SecureBroker, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": shared.secure,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def python(shared: SecureBroker, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": shared.secure,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORDS[user],
    }


def tokens(user: str) -> dict[str, str]:
    return basic(user, PASSWORDS[user])


def test_confluent_kafka_sees_its_own_and_nothing_else(shared: SecureBroker) -> None:
    admin = confluent_kafka.admin.AdminClient(confluent(shared, "acme/ann"))
    assert [name for name in admin.list_topics(timeout=SECONDS).topics if not name.startswith("acme.")] == []
    groups = admin.list_consumer_groups().result(SECONDS).valid
    assert {group.group_id for group in groups} == {"acme.g"}
    described = admin.describe_consumer_groups(["acme.g", "zeta.g"])
    assert described["acme.g"].result(SECONDS).group_id == "acme.g"
    with pytest.raises(confluent_kafka.KafkaException):
        described["zeta.g"].result(SECONDS)
    for topic in ("zeta.new", "new", "acmeX.new", "acme"):
        made = admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)])
        with pytest.raises(confluent_kafka.KafkaException) as refusal:
            made[topic].result(SECONDS)
        assert refusal.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"


def test_a_regular_expression_finds_no_more_than_the_tenants_topics(shared: SecureBroker) -> None:
    for protocol in ("classic", "consumer"):
        more = {
            "group.id": f"acme.re-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        consumer = confluent_kafka.Consumer(confluent(shared, "acme/ann") | more)
        consumer.subscribe(["^.*orders"])
        deadline, values = time.monotonic() + SECONDS, set()
        while not values and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.add(message.value())
        assert values == {b"of acme.orders"}
        assert {part.topic for part in consumer.assignment()} == {"acme.orders"}
        consumer.close()


def test_kafka_python_reads_and_writes_within_its_tenant_only(shared: SecureBroker) -> None:
    producer = kafka.KafkaProducer(**python(shared, "acme/ann"), max_block_ms=5000)
    assert producer.send("acme.orders", b"again").get(SECONDS).offset > 0
    for topic in ("zeta.orders", "plain-orders", "not-there"):
        with pytest.raises(kafka.errors.KafkaError):
            producer.send(topic, b"x").get(SECONDS)
    producer.close()
    admin = kafka.KafkaAdminClient(**python(shared, "acme/ann"))
    assert all(name.startswith("acme.") for name in admin.list_topics())
    admin.close()


def test_transactions_within_a_tenant(shared: SecureBroker) -> None:
    for name, passes in (("acme.t", True), ("zeta.t", False), ("acmeX.t", False), ("t", False)):
        producer = confluent_kafka.Producer(confluent(shared, "acme/ann", transactional_id=name))
        try:
            producer.init_transactions(SECONDS)
        except confluent_kafka.KafkaException as refusal:
            assert refusal.args[0].name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
            assert not passes
            continue
        assert passes
        producer.begin_transaction()
        producer.produce("acme.orders", b"in a transaction")
        producer.commit_transaction(SECONDS)


def test_who_names_a_tenant_that_is_not_there_may_do_nothing(shared: SecureBroker) -> None:
    admin = confluent_kafka.admin.AdminClient(confluent(shared, "gone/eve"))
    assert not admin.list_topics(timeout=SECONDS).topics
    made = admin.create_topics([confluent_kafka.admin.NewTopic("gone.new", 1, 1)])
    with pytest.raises(confluent_kafka.KafkaException):
        made["gone.new"].result(SECONDS)


def test_limits_are_told_and_hold_at_once(shared: SecureBroker) -> None:
    on = ("--bootstrap", shared.bootstrap)
    admin = confluent_kafka.admin.AdminClient(confluent(shared, "zeta/zoe"))
    made = admin.create_topics([confluent_kafka.admin.NewTopic("zeta.large", 8, 1)])
    with pytest.raises(confluent_kafka.KafkaException) as refusal:
        made["zeta.large"].result(SECONDS)
    assert refusal.value.args[0].name() == "POLICY_VIOLATION"
    assert "would have 9 partitions, and its limit partitions_max is 8" in refusal.value.args[0].str()
    ok("tenants", "limits", "zeta", "partitions_max=9", *on)
    admin.create_topics([confluent_kafka.admin.NewTopic("zeta.large", 8, 1)])["zeta.large"].result(SECONDS)
    admin.delete_topics(["zeta.large"])["zeta.large"].result(SECONDS)


def test_members_from_a_log_in_of_another_kind(shared: SecureBroker) -> None:
    on = ("--bootstrap", shared.bootstrap)
    admin = confluent_kafka.admin.AdminClient(confluent(shared, "bob"))
    assert "plain-orders" in admin.list_topics(timeout=SECONDS).topics
    ok("tenants", "members", "acme", "--add", "User:bob", *on)
    assert not [name for name in admin.list_topics(timeout=SECONDS).topics if not name.startswith("acme.")]
    assert "member of another tenant" in failed("tenants", "members", "zeta", "--add", "User:bob", *on)
    ok("tenants", "members", "acme", "--remove", "User:bob", *on)
    assert "plain-orders" in admin.list_topics(timeout=SECONDS).topics
    assert "has no User:bob" in failed("tenants", "members", "acme", "--remove", "User:bob", *on)


def test_the_command_line_tells_of_tenants(shared: SecureBroker) -> None:
    on = ("--bootstrap", shared.bootstrap)
    listed = {one["tenant"]: one for one in json.loads(ok("tenants", "list", "--json", *on))}
    assert listed["acme"]["prefix"] == "acme." and listed["acme"]["limits"]["topics_max"] == 5
    used = json.loads(ok("tenants", "usage", "acme", "--json", *on))[0]
    assert (
        used["topics"] >= 1 and used["partitions"] >= 1 and used["stored_bytes"] > 0 and used["groups"] >= 1
    )
    assert "acme" in ok("tenants", "usage", *on) and "acme." in ok("tenants", "list", *on)
    assert "already exists" in failed("tenants", "create", "acme", *on)
    assert "There is no tenant 'nobody'" in failed("tenants", "limits", "nobody", "topics_max=1", *on)
    wrong = invoke("tenants", "limits", "acme", "topics=1", *on)
    assert wrong.exit_code == 2 and "There is no limit 'topics'" in wrong.stderr
    ok("tenants", "create", "brief", *on)
    ok("topics", "create", "brief.orders", *on)
    assert "it has 1 topics" in failed("tenants", "delete", "brief", *on)
    gone = json.loads(ok("tenants", "delete", "brief", "--with-data", "--json", *on))
    assert gone["topics"] == ["brief.orders"]
    assert "There is no tenant 'brief'" in failed("tenants", "usage", "brief", *on)
    assert not json.loads(ok("quotas", "list", "--json", *on))


# HTTP


def checked(answer: Answer, path: str) -> Answer:
    for name in HIDDEN:
        assert name not in answer.text or name in path, f"{path} told of {name}: {answer.text[:500]}"
    return answer


def register(shared: SecureBroker, user: str, subject: str, schema: Any, **more: Any) -> Answer:
    body = json.dumps({"schema": json.dumps(schema), **more})
    return ask(shared, "POST", f"/subjects/{subject}/versions", tokens(user), body)


def test_no_page_and_no_answer_over_http_tells_of_others(shared: SecureBroker) -> None:
    register(shared, "zeta/zoe", "zeta.orders-value", "long")
    clusters = ask(shared, "GET", "/v3/clusters", tokens("root"))
    cluster = clusters.body["data"][0]["cluster_id"]
    told = 0
    for topic, group in (("acme.orders", "acme.g"), ("zeta.orders", "zeta.g"), ("plain-orders", "plain-g")):
        for method, path, rule in routes(topic, group, cluster):
            if method != "GET" or rule.is_open or "live" in path or "events" in path or "{" in path:
                continue
            answer = checked(ask(shared, "GET", path, tokens("acme/ann")), path)
            outside = not topic.startswith("acme.")
            # A page of metrics has the series of the tenant only.
            assert path == "/metrics" or not (outside and rule.needs and answer.status < 400), path
            told += answer.status == 200
    assert told > 20
    for words in ("orders", "zeta", "zeta.orders", "plain"):
        checked(ask(shared, "GET", f"/console/find?q={words}", tokens("acme/ann")), words)


def test_subjects_and_schema_ids_of_others_do_not_exist(shared: SecureBroker) -> None:
    theirs = register(
        shared, "zeta/zoe", "zeta.paid-value", {"type": "enum", "name": "Paid", "symbols": ["zetaish"]}
    )
    assert theirs.status == 200, theirs
    schema_id = theirs.body["id"]
    ours = register(shared, "acme/ann", "acme.paid-value", "string")
    assert ours.status == 200
    user = tokens("acme/ann")
    assert ask(shared, "GET", "/subjects", user).body == ["acme.paid-value"]
    for path in (
        f"/schemas/ids/{schema_id}",
        f"/schemas/ids/{schema_id}/schema",
        f"/schemas/ids/{schema_id}/subjects",
        f"/schemas/ids/{schema_id}/versions",
        "/subjects/zeta.paid-value/versions",
        "/subjects/zeta.paid-value/versions/latest",
        "/config/zeta.paid-value",
        "/contexts",
    ):
        answer = ask(shared, "GET", path, user)
        assert answer.status in (403, 404) and "zetaish" not in answer.text, path
    assert all(one["subject"].startswith("acme.") for one in ask(shared, "GET", "/schemas", user).body)
    reference = {"name": "Paid", "subject": "zeta.paid-value", "version": 1}
    stolen = register(shared, "acme/ann", "acme.stolen-value", "int", references=[reference])
    assert stolen.status == 403
    assert register(shared, "acme/ann", "zeta.more-value", "int").status == 403
    assert ask(shared, "DELETE", "/subjects/zeta.paid-value", user).status == 403
    assert ask(shared, "GET", f"/schemas/ids/{schema_id}", tokens("zeta/zoe")).status == 200
    for mode, status in (("IMPORT", 403), ("import", 403), ("READONLY", 200), ("READWRITE", 200)):
        answer = ask(shared, "PUT", "/mode/acme.fresh-value", user, json.dumps({"mode": mode}))
        assert answer.status in (status, 422 if mode == "import" else status), (mode, answer)


def test_a_rest_consumer_of_another_tenant_is_out_of_reach(shared: SecureBroker) -> None:
    media = "application/vnd.kafka.v2+json"
    body = json.dumps({"name": "i", "format": "binary", "auto.offset.reset": "earliest"})
    made = ask(shared, "POST", "/consumers/zeta.rest", tokens("zeta/zoe") | {"Content-Type": media}, body)
    assert made.status == 200, made
    for user in ("acme/ann",):
        got = ask(shared, "GET", "/consumers/zeta.rest/instances/i/records", tokens(user))
        assert got.status in (403, 404)
        assert ask(shared, "DELETE", "/consumers/zeta.rest/instances/i", tokens(user)).status in (403, 404)
    assert ask(shared, "DELETE", "/consumers/zeta.rest/instances/i", tokens("zeta/zoe")).status == 204
    own = ask(shared, "POST", "/consumers/acme.rest", tokens("acme/ann") | {"Content-Type": media}, body)
    assert own.status == 200
    subscribed = ask(
        shared,
        "POST",
        "/consumers/acme.rest/instances/i/subscription",
        tokens("acme/ann") | {"Content-Type": media},
        json.dumps({"topic_pattern": ".*orders"}),
    )
    assert subscribed.status in (204, 422)
    records = ask(shared, "GET", "/consumers/acme.rest/instances/i/records?timeout=3000", tokens("acme/ann"))
    assert "zeta" not in records.text and "plain" not in records.text


def test_the_console_shows_operators_what_tenants_use(shared: SecureBroker) -> None:
    shown = ask(shared, "GET", "/console/tenants", tokens("root"))
    assert shown.status == 200 and "zeta" in shown.text and "acme" in shown.text and " of 5" in shown.text
    assert ask(shared, "GET", "/console/tenants", tokens("acme/ann")).status == 403


async def _topics(shared: SecureBroker, user: str) -> list[str]:
    login = Security(mechanism="PLAIN", username=user, password=PASSWORDS[user])
    async with Admin(bootstrap_servers=shared.secure, security=login) as admin:
        return [topic.name for topic in await admin.list_topics(internal=True)]


def test_the_tidelog_client_sees_its_own(shared: SecureBroker) -> None:
    assert all(name.startswith("acme.") for name in asyncio.run(_topics(shared, "acme/ann")))
    assert {"zeta.orders", "plain-orders"} <= set(asyncio.run(_topics(shared, "root")))
    # Measured every two seconds, so a broker that has just begun has not said it yet.
    warning = "There are tenants, and listener PLAIN has no login"
    wait_for(
        lambda: shared_log(shared).count(warning) == 1, "the broker does not warn of a way around tenants"
    )


def shared_log(shared: SecureBroker) -> str:
    return (shared.home / "broker.log").read_text(errors="replace")


# Limits that are measured


def wait_for(holds: Any, what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def refusal_of(producer: confluent_kafka.Producer, topic: str) -> str | None:
    """The error's name; None: the record was taken."""
    told: list[Any] = []
    producer.produce(topic, b"x" * 1000, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(SECONDS) == 0
    return told[0] and told[0].name()


def test_a_tenant_stores_no_more_than_it_may(shared: SecureBroker) -> None:
    on = ("--bootstrap", shared.bootstrap)
    ok("tenants", "create", "full", "stored_bytes_max=5000", *on)
    ok("topics", "create", "full.a", *on)
    producer = confluent_kafka.Producer({"bootstrap.servers": shared.bootstrap})
    assert refusal_of(producer, "full.a") is None
    wait_for(lambda: refusal_of(producer, "full.a") == "POLICY_VIOLATION", "the limit does not hold")
    assert refusal_of(producer, "plain-orders") is None
    consumer = confluent_kafka.Consumer({"bootstrap.servers": shared.bootstrap, "group.id": "full.g"})
    consumer.assign([confluent_kafka.TopicPartition("full.a", 0, 0)])
    message = consumer.poll(SECONDS)
    assert message is not None and message.error() is None, "what is stored can be read"
    consumer.close()
    ok("tenants", "limits", "full", "stored_bytes_max=100000000", *on)
    wait_for(lambda: refusal_of(producer, "full.a") is None, "the tenant is still full")
    ok("tenants", "delete", "full", "--with-data", *on)


def test_retention_ends_at_the_ceiling_of_the_tenant(shared: SecureBroker) -> None:
    on = ("--bootstrap", shared.bootstrap)
    ok("tenants", "create", "short", "retention_ms_max=60000", *on)
    ok("topics", "create", "short.a", *on)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": shared.bootstrap})
    resource = confluent_kafka.admin.ConfigResource("topic", "short.a")

    def held() -> str:
        configs = admin.describe_configs([resource])[resource].result(SECONDS)
        return str(configs["retention.ms"].value)

    def altered(value: str) -> str | None:
        entry = confluent_kafka.admin.ConfigEntry(
            "retention.ms", value, incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET
        )
        wanted = confluent_kafka.admin.ConfigResource("topic", "short.a", incremental_configs=[entry])
        try:
            admin.incremental_alter_configs([wanted])[wanted].result(SECONDS)
        except confluent_kafka.KafkaException as refusal:
            return str(refusal.args[0].name())
        return None

    assert held() == "60000", "the default is longer than the tenant may keep records"
    assert [altered(value) for value in ("-1", "60001", "60000", "5000")] == [
        "POLICY_VIOLATION",
        "POLICY_VIOLATION",
        None,
        None,
    ]
    assert held() == "5000"
    ok("tenants", "limits", "short", "retention_ms_max=4000", *on)
    assert held() == "4000"
    ok("tenants", "delete", "short", "--with-data", *on)


def test_connections_of_a_tenant_have_a_bound(shared: SecureBroker) -> None:
    on = ("--bootstrap", shared.bootstrap)
    ok("tenants", "limits", "zeta", "connections_max=0", *on)
    refused = kafka_python_topics(shared, "zeta/zoe")
    assert refused is None
    assert kafka_python_topics(shared, "acme/ann") is not None
    ok("tenants", "limits", "zeta", "connections_max=", *on)
    assert kafka_python_topics(shared, "zeta/zoe") is not None


def kafka_python_topics(shared: SecureBroker, user: str) -> list[str] | None:
    try:
        admin = kafka.KafkaAdminClient(**python(shared, user))
    except kafka.errors.KafkaError:
        return None
    try:
        return list(admin.list_topics())
    finally:
        admin.close()


def test_a_scraper_of_a_tenant_sees_what_the_tenant_uses(shared: SecureBroker) -> None:
    own = ask(shared, "GET", "/metrics", tokens("acme/ann"))
    assert own.status == 200
    for name in (
        "requests_total",
        "bytes_in_total",
        "bytes_out_total",
        "connections",
        "stored_bytes",
        "partitions",
    ):
        assert f'mq_tenant_{name}{{tenant="acme"}}' in own.text, name
    assert 'mq_topic_bytes_in_total{topic="acme.orders"}' in own.text
    assert 'mq_tenant_limit{tenant="acme",limit="topics_max"} 5' in own.text
    checked(own, "/metrics")
    assert "mq_bytes_in_total" not in own.text and "client_id" not in own.text
    everything = ask(shared, "GET", "/metrics", tokens("root")).text
    assert 'mq_tenant_stored_bytes{tenant="zeta"}' in everything and "mq_bytes_in_total" in everything
    assert ask(shared, "GET", "/metrics", tokens("gone/eve")).status == 403


def test_the_end_of_a_tenant_takes_its_subjects_along(shared: SecureBroker, tmp_path: Path) -> None:
    config = tmp_path / "ann.properties"
    config.write_text(f"basic.auth.user.info=root:{PASSWORDS['root']}\n")
    on = ("--bootstrap", shared.bootstrap, "--command-config", str(config))
    with_registry = (*on, "--registry", f"http://{shared.http}")
    part = {"type": "record", "name": "Part", "fields": []}
    whole = {"type": "record", "name": "Whole", "fields": [{"name": "part", "type": "Part"}]}
    reference = {"name": "Part", "subject": "ending.part-value", "version": 1}
    ok("tenants", "create", "ending", *on)
    register(shared, "root", "ending.part-value", part)
    register(shared, "root", "ending.whole-value", whole, references=[reference])
    register(shared, "root", "endings.other-value", part)
    assert "2 schema subjects" in failed("tenants", "delete", "ending", *with_registry)
    gone = json.loads(ok("tenants", "delete", "ending", "--with-data", "--json", *with_registry))
    assert gone["subjects"] == ["ending.part-value", "ending.whole-value"]
    left = json.loads(ask(shared, "GET", "/subjects?deleted=true", tokens("root")).text)
    assert "endings.other-value" in left and not [subject for subject in left if "ending." in subject]
