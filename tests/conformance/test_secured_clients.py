"""Other people's clients and our own on listeners with TLS and SASL: who is let in, who is not, and what is told of it."""

from __future__ import annotations

import base64
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection, ConnectionClosed
from tests.conformance.secured import (
    CLIENTS,
    PASSWORD,
    PLAIN_PASSWORD,
    Login,
    SecuredBroker,
    acl,
    librdkafka_options,
    login_to,
    tidelog_security,
)
from tidelog import AclFilter, Admin, NewTopic, Unreachable, errors
from tidelog import Producer as TidelogProducer
from tidelog.net.scram_client import ScramClient

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


# Who is not let in


def log_since(broker: SecuredBroker, size: int) -> str:
    return broker.log_text()[size:]


REFUSED = (
    "PLAIN, wrong password",
    "PLAIN, unknown user",
    "SCRAM, wrong password",
    "SCRAM, unknown user",
    "expired token",
    "token of another key",
    "token of another issuer",
)


def refused_login(broker: SecuredBroker, kind: str) -> Login:
    bearer = login_to(broker, "BOTH", "OAUTHBEARER")
    if kind.startswith("PLAIN"):
        plain = login_to(broker, "BOTH", "PLAIN")
        return plain.but(username="nobody") if "unknown" in kind else plain.but(password="guess")
    if kind.startswith("SCRAM"):
        login = login_to(broker, "LOGIN", "SCRAM-SHA-512")
        return login.but(username="nobody") if "unknown" in kind else login.but(password="guess")
    if kind.startswith("expired"):
        return bearer.but(token=broker.token(lifetime_s=-120))
    if kind.endswith("key"):
        return bearer.but(token=broker.token(signer=rsa.generate_private_key(65537, 2048)))
    return bearer.but(token=broker.token(iss="https://elsewhere.example"))


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_login_is_told_as_such_and_logged_with_the_address(
    broker: SecuredBroker, kind: str
) -> None:
    login = refused_login(broker, kind)
    before = len(broker.log_text())
    with pytest.raises(errors.SaslAuthenticationFailed):
        TidelogProducer(bootstrap_servers=login.bootstrap, security=tidelog_security(login))
    told: list[KafkaError] = []
    admin = AdminClient({**librdkafka_options(login), "error_cb": told.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(0)
    assert KafkaError._AUTHENTICATION in [one.code() for one in told], told
    log = log_since(broker, before)
    assert "refused the login of 127.0.0.1:" in log
    assert "guess" not in log and (not login.token or login.token not in log)


def test_a_stranger_cannot_tell_an_unknown_user_from_a_wrong_password(broker: SecuredBroker) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        texts = set()
        for name in ("ann", "nobody"):
            login = login_to(broker, "LOGIN", mechanism).but(username=name, password="guess")
            with pytest.raises(errors.SaslAuthenticationFailed) as caught:
                TidelogProducer(bootstrap_servers=login.bootstrap, security=tidelog_security(login))
            texts.add(str(caught.value))
        assert len(texts) == 1


def test_without_a_client_certificate_nothing_is_served(broker: SecuredBroker) -> None:
    login = login_to(broker, "MUTUAL").but(certificate=None, key=None)
    before = len(broker.log_text())
    with pytest.raises(Unreachable):
        TidelogProducer(bootstrap_servers=login.bootstrap, security=tidelog_security(login))
    with pytest.raises(KafkaException):
        AdminClient(librdkafka_options(login)).list_topics(timeout=3)
    wait_until(lambda: "listener MUTUAL" in log_since(broker, before), 10, "the log says so")
    assert "refusing a connection of 127.0.0.1:" in log_since(broker, before)


def test_plain_bytes_on_a_tls_port_and_tls_on_a_plain_one_end_the_connection(broker: SecuredBroker) -> None:
    before = len(broker.log_text())
    with Connection(broker.at("BOTH")) as connection, pytest.raises((ConnectionClosed, AssertionError)):
        connection.call("api_versions", 0)
    wait_until(lambda: "listener BOTH" in log_since(broker, before), 10, "the log says so")
    context = login_to(broker, "BOTH").context()
    assert context is not None
    with (
        socket.create_connection(("127.0.0.1", broker.ports["PLAIN"]), timeout=10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.list_topics() is not None


def test_an_endless_handshake_ends_and_holds_up_nobody(broker: SecuredBroker) -> None:
    before = len(broker.log_text())
    silent = [socket.create_connection(("127.0.0.1", broker.ports["BOTH"]), timeout=60) for _ in range(20)]
    silent[0].sendall(b"\x16\x03\x01")  # the first bytes of a handshake, and nothing more
    name = new_name()
    assert CLIENTS["tidelog"](login_to(broker, "BOTH", "SCRAM-SHA-256"), name, name, [b"x"]) == [b"x"]
    assert all(one.recv(1) == b"" for one in silent)
    for one in silent:
        one.close()
    # Lines about one address are bounded, and other tests of this broker have used some up.
    assert 0 < log_since(broker, before).count("listener BOTH: no TLS handshake within") <= 20


@pytest.mark.parametrize("listener", ["LOGIN", "BOTH"])
def test_nothing_is_served_before_the_login(broker: SecuredBroker, listener: str) -> None:
    with to_listener(broker, listener) as connection:
        assert connection.call("api_versions", 2).error_code == 0
        connection.send("metadata", 12, topics=None)
        with pytest.raises(ConnectionClosed):
            connection.receive("metadata", 12)


# Users that come and go, sessions that end, tokens


def to_listener(broker: SecuredBroker, listener: str) -> Connection:
    connection = Connection(broker.at(listener))
    context = login_to(broker, listener).context()
    if context is not None:
        connection.socket = context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
    return connection


def scram(connection: Connection, name: str, password: str, extension: str = "") -> Any:
    """The answer to the last message that was sent: its error, and for how long the session counts."""
    assert connection.call("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 0
    client = ScramClient("sha256", name, password, "abcdef")
    client._bare += extension
    first = connection.call("sasl_authenticate", 2, auth_bytes=client.first())
    if first.error_code != 0:
        return first
    last = connection.call("sasl_authenticate", 2, auth_bytes=client.final(first.auth_bytes))
    if last.error_code == 0:
        client.check(last.auth_bytes)
    return last


def lifetime(answer: Any) -> float:
    return float(answer.session_lifetime.total_seconds())


def test_users_come_and_go_while_the_broker_runs(broker: SecuredBroker) -> None:
    name = new_name()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        with to_listener(broker, "BOTH") as connection:
            assert scram(connection, name, "first").error_code.name == "sasl_authentication_failed"
            assert connection.closed_by_broker()
        admin.alter_user_scram_credentials({name: "first"}, mechanism="SCRAM-SHA-256")
        with to_listener(broker, "BOTH") as connection:
            assert scram(connection, name, "first").error_code == 0
            admin.alter_user_scram_credentials({name: None}, mechanism="SCRAM-SHA-256")
            assert connection.call("metadata", 12, topics=[]).brokers, "who is logged in stays"
        with to_listener(broker, "BOTH") as connection:
            assert scram(connection, name, "first").error_code.name == "sasl_authentication_failed"


@pytest.fixture
def short_sessions(tmp_path: Path) -> Iterator[SecuredBroker]:
    own = SecuredBroker(
        tmp_path, {"connections.max.reauth.ms": "2000", "super.users": "User:ANONYMOUS;User:ann"}
    )
    own.start()
    with Admin(bootstrap_servers=own.bootstrap) as admin:
        admin.alter_user_scram_credentials({"ann": PASSWORD, "bob": PASSWORD}, mechanism="SCRAM-SHA-256")
        admin.create_topics([NewTopic("ann-again")])
    yield own
    own.stop()


def test_a_session_ends_in_time_unless_it_logs_in_again(short_sessions: SecuredBroker) -> None:
    with to_listener(short_sessions, "BOTH") as stays, to_listener(short_sessions, "LOGIN") as ends:
        assert 0 < lifetime(scram(ends, "ann", PASSWORD)) <= 2
        for _ in range(3):
            assert scram(stays, "ann", PASSWORD).error_code == 0
            assert stays.call("metadata", 12, topics=[]).brokers
            time.sleep(1.2)
        with pytest.raises((ConnectionClosed, BrokenPipeError, ConnectionResetError)):
            ends.call("metadata", 12, topics=[])
        answer = scram(stays, "bob", PASSWORD)
        assert answer.error_code.name == "sasl_authentication_failed", "nobody becomes somebody else"


def test_a_session_lasts_no_longer_than_its_token(short_sessions: SecuredBroker) -> None:
    with to_listener(short_sessions, "LOGIN") as connection:
        assert connection.call("sasl_handshake", 1, mechanism="OAUTHBEARER").error_code == 0
        message = f"n,,\x01auth=Bearer {short_sessions.token(lifetime_s=1)}\x01\x01".encode()
        answer = connection.call("sasl_authenticate", 2, auth_bytes=message)
        assert answer.error_code == 0 and 0 < lifetime(answer) <= 1


def test_clients_that_log_in_again_lose_nothing(short_sessions: SecuredBroker) -> None:
    login = login_to(short_sessions, "BOTH", "SCRAM-SHA-256")
    producer = LibrdkafkaProducer(librdkafka_options(login))
    lost: list[Any] = []
    with TidelogProducer(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as ours:
        for _ in range(10):
            producer.produce("ann-again", b"x", on_delivery=lambda error, _: error and lost.append(error))
            ours.send("ann-again", b"y").get(20)
            assert producer.flush(20) == 0 and not lost, lost
            time.sleep(0.5)


def test_a_delegation_token_logs_in_as_its_owner(broker: SecuredBroker) -> None:
    login = login_to(broker, "BOTH", "SCRAM-SHA-256")
    with Admin(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as admin:
        token = admin.create_delegation_token(max_lifetime_ms=60_000)
        hmac = base64.b64encode(token.hmac).decode()
        with to_listener(broker, "BOTH") as connection:
            answer = scram(connection, token.token_id, hmac, ",tokenauth=true")
            assert answer.error_code == 0 and 0 < lifetime(answer) <= 60
            topic = {"name": new_name(), "num_partitions": 1, "replication_factor": 1}
            made = connection.call("create_topics", 5, topics=[topic])
            assert made.topics[0].error_code == 0, "only ann may"
            connection.send("create_delegation_token", 3, renewers=[])
            # The answer has times of -1, which kio does not read: its error is behind the header.
            another = int.from_bytes(connection.receive_frame()[5:7], "big")
            assert another == errors.DelegationTokenRequestNotAllowed.code
        with to_listener(broker, "BOTH") as connection:
            assert scram(connection, token.token_id, hmac).error_code != 0, "it is no user"
        admin.expire_delegation_token(token.hmac)
        with to_listener(broker, "BOTH") as connection:
            assert scram(connection, token.token_id, hmac, ",tokenauth=true").error_code != 0
    assert hmac not in broker.log_text()


# ACLs


def user(broker: SecuredBroker, *rights: Any) -> Login:
    """A user of this test alone, with these rights."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_user_scram_credentials({name: PASSWORD}, mechanism="SCRAM-SHA-512")
        admin.create_acls(acl(f"User:{name}", *words, **options) for words, options in rights)
    return login_to(broker, "BOTH", "SCRAM-SHA-512").but(username=name)


def right(*words: str, **options: bool) -> Any:
    return words, options


def new_topic(broker: SecuredBroker) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name)])
    return name


def produce(login: Login, topic: str, **more: Any) -> int | None:
    """The code of librdkafka's error; None when it was delivered."""
    told: list[Any] = []
    producer = LibrdkafkaProducer({**librdkafka_options(login), "message.timeout.ms": 8_000, **more})
    producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
    producer.flush(20)
    return told[0] and told[0].code()


def consume(login: Login, topic: str, group: str) -> int | None:
    """The code of librdkafka's error; None when a record came."""
    consumer = Consumer({**librdkafka_options(login), "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            record = consumer.poll(0.5)
            if record is not None:
                return record.error() and record.error().code()
        raise AssertionError("neither a record nor an error")
    finally:
        consumer.close()


TOPIC_REFUSED, GROUP_REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED


def test_who_may_only_write_does_not_read(broker: SecuredBroker) -> None:
    topic = new_topic(broker)
    writer = user(broker, right("write", "topic", topic), right("read", "group", "any"))
    assert produce(writer, topic) is None
    assert produce(writer, topic, **{"enable.idempotence": True}) is None
    assert consume(writer, topic, "any") == TOPIC_REFUSED
    assert produce(writer, new_topic(broker)) == TOPIC_REFUSED


def test_who_may_only_read_needs_the_group_too(broker: SecuredBroker) -> None:
    topic = new_topic(broker)
    assert produce(login_to(broker, "PLAIN"), topic) is None
    reader = user(broker, right("read", "topic", topic), right("read", "group", "mine-", prefixed=True))
    assert consume(reader, topic, "mine-1") is None
    assert consume(reader, topic, "others") == GROUP_REFUSED
    assert produce(reader, topic) == TOPIC_REFUSED


def test_prefixes_allow_and_one_denial_wins(broker: SecuredBroker) -> None:
    topic, denied = new_topic(broker), new_topic(broker)
    writer = user(
        broker,
        right("all", "topic", "topic-", prefixed=True),
        right("write", "topic", denied, deny=True),
    )
    assert produce(writer, topic) is None
    assert produce(writer, denied) == TOPIC_REFUSED


def test_a_right_holds_from_the_moment_it_is_given_until_it_is_taken(broker: SecuredBroker) -> None:
    topic = new_topic(broker)
    login = user(broker)
    held = acl(f"User:{login.username}", "write", "topic", topic)
    with (
        Admin(bootstrap_servers=broker.bootstrap) as admin,
        TidelogProducer(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as producer,
    ):
        for _ in range(2):
            admin.create_acls(held)
            assert producer.send(topic, b"x").get(20).topic == topic
            admin.delete_acls(AclFilter(principal=held.principal))
            with pytest.raises(errors.TopicAuthorizationFailed):
                producer.send(topic, b"x").get(20)


def test_a_transaction_needs_its_id_and_the_topic(broker: SecuredBroker) -> None:
    topic = new_topic(broker)
    rights = [
        right("write", "transactional_id", "sums"),
        right("describe", "transactional_id", "sums"),
        right("write", "topic", topic),
    ]
    login = user(broker, *rights)

    def transact(login: Login, transactional_id: str, topic: str) -> int | None:
        producer = LibrdkafkaProducer({**librdkafka_options(login), "transactional.id": transactional_id})
        try:
            producer.init_transactions(20)
            producer.begin_transaction()
            producer.produce(topic, b"x")
            producer.commit_transaction(20)
        except KafkaException as problem:
            return int(problem.args[0].code())
        return None

    assert transact(login, "sums", topic) is None
    assert transact(login, "others", topic) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (
        transact(user(broker, rights[2]), "sums", topic) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    assert transact(user(broker, *rights[:2]), "sums", topic) is not None


def test_a_topic_one_may_not_describe_looks_like_none(broker: SecuredBroker) -> None:
    there, nowhere = new_topic(broker), f"topic-{uuid.uuid4().hex[:8]}"
    login = user(broker)
    with to_listener(broker, "LOGIN") as connection:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_user_scram_credentials({login.username: PASSWORD}, mechanism="SCRAM-SHA-256")
        with Connection(broker.bootstrap) as plain:
            topic_id = plain.call("metadata", 12, topics=[{"name": there}]).topics[0].topic_id
        assert topic_id is not None
        assert scram(connection, login.username, PASSWORD).error_code == 0
        assert connection.call("metadata", 12, topics=None).topics == ()
        answers = connection.call("metadata", 12, topics=[{"name": there}, {"name": nowhere}]).topics
        assert {one.error_code.name for one in answers} == {"topic_authorization_failed"}
        assert {one.topic_id for one in answers} == {None} and not any(one.partitions for one in answers)
        by_id = [{"topic_id": one, "name": None} for one in (topic_id, uuid.uuid4())]
        by_ids = connection.call("metadata", 12, topics=by_id).topics
        assert len({one.error_code for one in by_ids}) == 1 and not any(one.name for one in by_ids)
