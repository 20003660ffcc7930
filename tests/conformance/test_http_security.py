"""The HTTP port of a broker with an authorizer: who gets in, and what a user may see and do there."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.conformance.conftest import ON_KAFKA, SETTINGS
from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Security
from tidelog.aio import Admin, NewTopic
from tidelog.gateways.http.rights import OPEN, RIGHTS
from tidelog.gateways.registry.rights import RIGHTS as REGISTRY
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port")

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
PASSWORDS = {"ann": "a-secret", "bob": "b-secret", "cat": "c-secret"}
JSON_TYPE = "application/json"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)


class SecureBroker(TidelogBroker):
    secure_port = 0

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]  # the settings have the listeners

    @property
    def secure(self) -> str:
        return f"127.0.0.1:{self.secure_port}"


def settings(plain: int, secure: int) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return SETTINGS | {
        "listeners": f"PLAIN://127.0.0.1:{plain},SEC://127.0.0.1:{secure}",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SEC:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sec.plain.sasl.jaas.config": f"{LOGIN}{users};",
        "authorizer.class.name": "tidelog",
        "super.users": "User:ann",
        "connection.failed.authentication.delay.ms": "20",
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """ann is a super user, bob may do nothing, cat may do everything with topics and groups that begin with c-."""
    port, secure = free_port(), free_port()
    running = SecureBroker(tmp_path_factory.mktemp("guarded"), settings(port, secure))
    running.port, running.secure_port = port, secure
    running.start()
    asyncio.run(_prepare(running.secure))
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


async def _prepare(bootstrap: str) -> None:
    login = Security(mechanism="PLAIN", username="ann", password=PASSWORDS["ann"])
    async with Admin(bootstrap_servers=bootstrap, security=login) as admin:
        await admin.create_topics([NewTopic(name, 1, 1) for name in ("c-1", "secret-orders")])
        await admin.create_acls(
            AclBinding(
                kind, AclPatternType.PREFIXED, "c-", "User:cat", "*", AclOperation.ALL, AclPermission.ALLOW
            )
            for kind in (AclResourceType.TOPIC, AclResourceType.GROUP)
        )


def basic(user: str, password: str | None = None) -> dict[str, str]:
    text = f"{user}:{PASSWORDS[user] if password is None else password}"
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def ask(
    broker: SecureBroker,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: str | None = None,
) -> Answer:
    host, _, port = broker.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        sent = {"Content-Type": JSON_TYPE} if body is not None else {}
        connection.request(method, path, body, sent | (headers or {}))
        answer = connection.getresponse()
        if "events" in path and answer.status == 200:
            return Answer(200, {}, "")
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read().decode())
    finally:
        connection.close()


def routes(topic: str, group: str, cluster: str) -> list[tuple[str, str, Any]]:
    """(method, path, rule) of every route, with real names in the path."""
    filled = {"topic": topic, "group": group, "cluster": cluster, "rest:path": "x", "instance": "i"}
    found = []
    for (method, pattern), rule in RIGHTS.items():
        path = re.sub(r"\{([^}]+)\}", lambda match: filled.get(match[1], "0"), pattern)
        names = [need.name for need in rule.needs]
        found.append((method, path + (f"?name={group}" if "?name" in names else ""), rule))
    return found


@pytest.fixture(scope="module")
def cluster(guarded: SecureBroker) -> str:
    answer = ask(guarded, "GET", "/v3/clusters", basic("ann"))
    assert answer.status == 200, answer
    return str(answer.body["data"][0]["cluster_id"])


def test_a_stranger_reaches_nothing_but_health_and_the_login_page(guarded: SecureBroker) -> None:
    for method, path, rule in routes("c-1", "c-g", "x"):
        answer = ask(guarded, method, path)
        if rule == OPEN:
            assert answer.status not in (401, 403) or method == "POST", (method, path, answer)
            continue
        assert (answer.status, answer.body["error_code"]) == (401, 40101), (method, path, answer)
        assert "Basic" in answer.headers["www-authenticate"]
    for method, pattern in REGISTRY:
        answer = ask(guarded, method, "/" + pattern.replace("{}", "1"))
        assert answer.status == 401, (method, pattern, answer)
    assert ask(guarded, "GET", "/health/live").status == 200
    assert ask(guarded, "GET", "/nothing").status == 401


def test_a_user_without_rights_sees_and_does_nothing(guarded: SecureBroker, cluster: str) -> None:
    bob = basic("bob")
    for method, path, rule in routes("secret-orders", "c-g", cluster):
        if rule.needs:
            answer = ask(guarded, method, path, bob, body="{}" if method != "GET" else None)
            assert answer.status == 403, (method, path, answer)
    for method, pattern in REGISTRY:
        rule = REGISTRY[method, pattern]
        answer = ask(guarded, method, "/" + pattern.replace("{}", "1"), bob)
        if rule.filtered and not rule.of_schema:
            assert answer.body == []
        elif rule.of_schema:
            assert answer.status == 404, (method, pattern, answer)
        elif rule.subject or rule.cluster:
            assert answer.status == 403, (method, pattern, answer)
    assert ask(guarded, "GET", "/topics", bob).body == []
    assert ask(guarded, "GET", f"/v3/clusters/{cluster}/topics", bob).body["data"] == []
    assert ask(guarded, "GET", f"/v3/clusters/{cluster}/consumer-groups", bob).body["data"] == []
    made = ask(guarded, "POST", f"/v3/clusters/{cluster}/topics", bob, json.dumps({"topic_name": "b"}))
    assert made.status == 403, made
    page = ask(guarded, "GET", "/console/topics", bob)
    assert page.status == 200 and "secret-orders" not in page.text and "Logged in as bob" in page.text
    assert ask(guarded, "GET", "/", bob).headers["location"] == "/console/topics"
    # A topic that does not exist is refused in the same way.
    told = [ask(guarded, "GET", f"/topics/{name}/partitions", bob) for name in ("secret-orders", "absent")]
    assert {answer.status for answer in told} == {403}


def test_a_user_does_what_the_acls_allow(guarded: SecureBroker, cluster: str) -> None:
    cat = basic("cat")
    assert ask(guarded, "GET", "/topics", cat).body == ["c-1"]
    for method, path, rule in routes("c-1", "c-g", cluster):
        of_own = all(need.kind.name in ("TOPIC", "GROUP") for need in rule.needs)
        if method == "GET" and of_own and "{node" not in path:
            answer = ask(guarded, method, path, cat)
            assert answer.status not in (401, 403, 500, 503), (method, path, answer)
    records = f"/v3/clusters/{cluster}/topics/{{}}/records"
    record = json.dumps({"value": {"type": "STRING", "data": "hello"}})
    assert ask(guarded, "POST", records.format("c-1"), cat, record).body["error_code"] == 200
    assert ask(guarded, "POST", records.format("secret-orders"), cat, record).status == 403
    created = ask(guarded, "POST", f"/v3/clusters/{cluster}/topics", cat, json.dumps({"topic_name": "c-2"}))
    assert created.status == 201, created
    seen = ask(guarded, "GET", "/console/topics/c-1/messages", cat)
    assert "hello" in seen.text
    assert ask(guarded, "GET", "/metrics", cat).status == 403
    assert ask(guarded, "GET", "/metrics", basic("ann")).status == 200


def test_consumer_instances_read_with_the_rights_of_their_user(guarded: SecureBroker, cluster: str) -> None:
    record = json.dumps({"value": {"type": "STRING", "data": "hello"}})
    written = ask(guarded, "POST", f"/v3/clusters/{cluster}/topics/c-1/records", basic("cat"), record)
    assert written.body["error_code"] == 200
    kind = {"Content-Type": "application/vnd.kafka.v2+json"}

    def post(path: str, body: Any, user: str) -> Answer:
        return ask(guarded, "POST", path, basic(user) | kind, json.dumps(body))

    options = {"name": "i1", "format": "binary", "auto.offset.reset": "earliest"}
    assert post("/consumers/c-readers", options, "bob").status == 403
    assert post("/consumers/c-readers", options, "cat").status == 200
    instance = "/consumers/c-readers/instances/i1"
    assert post(f"{instance}/subscription", {"topics": ["c-1"]}, "cat").status == 204
    # Another user who may use the group does not get at it.
    assert ask(guarded, "GET", f"{instance}/subscription", basic("ann")).status == 404
    accept = {"Accept": "application/vnd.kafka.binary.v2+json"}
    deadline = time.monotonic() + 60
    while not (records := ask(guarded, "GET", f"{instance}/records", basic("cat") | accept).body):
        assert time.monotonic() < deadline
    assert records[0]["topic"] == "c-1"
    assert ask(guarded, "DELETE", instance, basic("cat") | kind).status == 204


def test_subjects_follow_their_topics(guarded: SecureBroker) -> None:
    body = json.dumps({"schema": '"string"'})
    hidden = json.dumps({"schema": '{"type":"record","name":"H","fields":[]}'})
    assert ask(guarded, "POST", "/subjects/c-1-value/versions", basic("cat"), body).status == 200
    assert ask(guarded, "POST", "/subjects/secret-orders-value/versions", basic("cat"), body).status == 403
    made = ask(guarded, "POST", "/subjects/secret-orders-value/versions", basic("ann"), hidden)
    assert made.status == 200
    assert ask(guarded, "GET", "/subjects", basic("cat")).body == ["c-1-value"]
    assert ask(guarded, "GET", "/subjects", basic("bob")).body == []
    assert [one["subject"] for one in ask(guarded, "GET", "/schemas", basic("cat")).body] == ["c-1-value"]
    number = made.body["id"]
    assert ask(guarded, "GET", f"/schemas/ids/{number}", basic("ann")).status == 200
    assert ask(guarded, "GET", f"/schemas/ids/{number}", basic("cat")).status == 404
    alias = json.dumps({"alias": "secret-orders-value"})
    assert ask(guarded, "PUT", "/config/c-1-value", basic("cat"), alias).status == 403
    assert ask(guarded, "PUT", "/config", basic("cat"), '{"compatibility":"NONE"}').status == 403
    assert "secret-orders-value" not in ask(guarded, "GET", "/console/schemas", basic("cat")).text


def test_the_clients_of_others_log_in_to_the_registry(guarded: SecureBroker) -> None:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    def client(user: str) -> SchemaRegistryClient:
        login = f"{user}:{PASSWORDS[user]}"
        return SchemaRegistryClient({"url": f"http://{guarded.http}", "basic.auth.user.info": login})

    number = client("cat").register_schema("c-9-value", Schema('"long"', "AVRO"))
    assert client("cat").get_schema(number).schema_str == '"long"'
    with pytest.raises(SchemaRegistryError) as refused:
        client("bob").register_schema("c-9-value", Schema('"int"', "AVRO"))
    assert refused.value.http_status_code == 403


def test_wrong_logins_look_alike_and_lock_the_pair_out(guarded: SecureBroker) -> None:
    told = [
        ask(guarded, "GET", "/topics", headers)
        for headers in (
            basic("nobody", "x"),
            basic("bob", "x"),
            basic("bob", ""),
            basic("", "x"),
            {"Authorization": "Basic !!!"},
            {"Authorization": "Basic"},
            {"Authorization": "Digest x"},
            {"Authorization": "Bearer x.y.z"},
            {"Authorization": "Tidelog-On-Behalf x.y"},
            {"Authorization": "Tidelog-On-Behalf "},
        )
    ]
    assert {(answer.status, answer.text) for answer in told} == {(401, told[0].text)}
    for _ in range(5):
        assert ask(guarded, "GET", "/topics", basic("eve", "guess")).status == 401
    for _ in range(2):
        assert ask(guarded, "GET", "/topics", basic("eve", "again")).status == 401
    assert "it has failed too often" in (guarded.home / "broker.log").read_text()
    assert ask(guarded, "GET", "/topics", basic("cat")).status == 200


async def change_password(guarded: SecureBroker, password: str) -> None:
    login = Security(mechanism="PLAIN", username="ann", password=PASSWORDS["ann"])
    async with Admin(bootstrap_servers=guarded.secure, security=login) as admin:
        await admin.alter_user_scram_credentials({"dan": password}, mechanism="SCRAM-SHA-256")


async def test_a_stored_user_logs_in_until_the_password_is_another(guarded: SecureBroker) -> None:
    await change_password(guarded, "first")
    assert ask(guarded, "GET", "/topics", basic("dan", "first")).status == 200
    await change_password(guarded, "second")
    assert ask(guarded, "GET", "/topics", basic("dan", "first")).status == 401
    assert ask(guarded, "GET", "/topics", basic("dan", "second")).status == 200


class Browser:
    """Keeps cookies, as a browser does."""

    def __init__(self, broker: SecureBroker) -> None:
        self._broker = broker
        self.cookies: dict[str, str] = {}
        self.set: dict[str, str] = {}

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, **more: str) -> Answer:
        host, _, port = self._broker.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        headers = {"Accept": "text/html", **more}
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, None if form is None else urlencode(form), headers)
        answer = connection.getresponse()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                cookie, _, attributes = value.partition(";")
                key, _, text = cookie.partition("=")
                self.cookies[key], self.set[key] = text, attributes.lower()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read().decode())

    def log_in(self, user: str, password: str, following: str = "/") -> Answer:
        page = self.ask("GET", "/console/login")
        token = re.search(r'name="token" value="([^"]+)"', page.text)
        assert token is not None
        form = {"token": token[1], "user": user, "password": password, "next": following}
        return self.ask("POST", "/console/login", form)


def test_the_console_has_a_login_page(guarded: SecureBroker) -> None:
    browser = Browser(guarded)
    asked = browser.ask("GET", "/console/topics?q=c")
    assert (asked.status, asked.headers["location"]) == (
        303,
        "/console/login?next=%2Fconsole%2Ftopics%3Fq%3Dc",
    )
    page = browser.ask("GET", asked.headers["location"])
    assert page.status == 200 and 'value="/console/topics?q=c"' in page.text
    assert browser.log_in("cat", "wrong").status == 403 and "tidelog_session" not in browser.cookies
    form = {"user": "cat", "password": PASSWORDS["cat"]}
    assert browser.ask("POST", "/console/login", form).status == 403  # without the token of the form
    logged_in = browser.log_in("cat", PASSWORDS["cat"], "/console/topics")
    assert (logged_in.status, logged_in.headers["location"]) == (303, "/console/topics")
    assert "httponly" in browser.set["tidelog_session"] and "samesite=lax" in browser.set["tidelog_session"]
    topics = browser.ask("GET", "/console/topics")
    assert "c-1" in topics.text and "secret-orders" not in topics.text and "Logged in as cat" in topics.text
    assert browser.ask("GET", "/console/topics/secret-orders").status == 403
    token = re.search(r'name="token" value="([^"]+)"', topics.text)
    assert token is not None
    foreign = browser.ask("POST", "/console/logout", {"token": token[1]}, Origin="http://evil.example")
    assert foreign.status == 403
    before = dict(browser.cookies)
    assert browser.ask("POST", "/console/logout", {"token": token[1]}).status == 303
    browser.cookies = before  # the session has ended on the broker, not only in the browser
    assert browser.ask("GET", "/console/topics").status == 303


def test_the_script_of_an_ended_session_gets_no_dialog_of_the_browser(guarded: SecureBroker) -> None:
    fetch = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
    answer = Browser(guarded).ask("GET", "/console/topics/c-1/live", **fetch)
    assert answer.status == 401 and "www-authenticate" not in answer.headers


def test_a_login_leads_to_no_other_site(guarded: SecureBroker) -> None:
    for following in ("https://evil.example/", "//evil.example", "/\\evil.example", "console"):
        answer = Browser(guarded).log_in("cat", PASSWORDS["cat"], following)
        assert answer.headers["location"] == "/"
