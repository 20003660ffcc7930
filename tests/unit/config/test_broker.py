from __future__ import annotations

import pytest

from tidelog.config import BrokerConfig, Listener, TopicConfig
from tidelog.errors import InvalidConfig


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.of(given)
    return str(caught.value)


def test_the_finest_unit_of_retention_wins() -> None:
    hours = {"log.retention.hours": "1"}
    minutes = {**hours, "log.retention.minutes": "2"}
    exact = {**minutes, "log.retention.ms": "3"}
    assert BrokerConfig.of(hours).topic_defaults.retention_ms == 3_600_000
    assert BrokerConfig.of(minutes).topic_defaults.retention_ms == 120_000
    assert BrokerConfig.of(exact).topic_defaults.retention_ms == 3


def test_any_negative_retention_is_no_limit_and_zero_is_refused() -> None:
    assert BrokerConfig.of({"log.retention.hours": "-1"}).topic_defaults.retention_ms == -1
    assert "cannot be 0" in refusal({"log.retention.minutes": "0"})


def test_flush_interval_falls_back_to_the_schedulers() -> None:
    given = {"log.flush.scheduler.interval.ms": "500"}
    assert BrokerConfig.of(given).topic_defaults.flush_ms == 500
    assert BrokerConfig.of({**given, "log.flush.interval.ms": "100"}).topic_defaults.flush_ms == 100


def test_dynamic_settings_win_over_those_of_the_start_and_the_own_over_those_of_all() -> None:
    start = BrokerConfig.of({"message.max.bytes": "1", "max.connections": "10"})
    everywhere = start.with_dynamic({"message.max.bytes": "2"}, {})
    changed = start.with_dynamic({"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    assert everywhere.topic_defaults.max_message_bytes == 2
    assert changed.topic_defaults.max_message_bytes == 3
    assert changed.max_connections == 10
    assert start.topic_defaults.max_message_bytes == 1


def test_dynamic_settings_leave_all_others_as_they_were_at_the_start() -> None:
    start = BrokerConfig(node_id=5, topic_defaults=TopicConfig(retention_ms=9, flush_ms=8))
    changed = start.with_dynamic({"log.retention.ms": "3", "max.connections": "7"}, {})
    assert changed == BrokerConfig(
        node_id=5, max_connections=7, topic_defaults=TopicConfig(retention_ms=3, flush_ms=8)
    )
    with pytest.raises(InvalidConfig, match="cannot be 0"):
        start.with_dynamic({}, {"log.retention.ms": "0"})


def test_a_dynamic_setting_wins_over_a_coarser_unit_of_the_start() -> None:
    start = BrokerConfig.of({"log.retention.hours": "1", "log.roll.hours": "2"})
    changed = start.with_dynamic({"log.retention.ms": "-5"}, {})
    assert (changed.topic_defaults.retention_ms, changed.topic_defaults.segment_ms) == (-1, 7_200_000)


def test_broker_id_is_another_name_of_node_id() -> None:
    assert BrokerConfig.of({"broker.id": "5"}).node_id == 5
    assert BrokerConfig.of({"broker.id": "5", "node.id": "5"}).node_id == 5
    assert "give one of them" in refusal({"broker.id": "5", "node.id": "6"})
    assert "at least 0" in refusal({"node.id": "-1"})
    assert "at least 0" in refusal({"broker.id": "-2"})


def test_log_dirs_wins_over_log_dir() -> None:
    assert BrokerConfig.of({"log.dir": "a"}).log_dirs == ("a",)
    assert BrokerConfig.of({"log.dir": "a", "log.dirs": "b, c"}).log_dirs == ("b", "c")
    assert "needs a folder" in refusal({"log.dirs": ""})


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
        ("plaintext://localhost:0", Listener("PLAINTEXT", "localhost", 0)),
        ("PLAINTEXT://[::1]:19092", Listener("PLAINTEXT", "::1", 19092)),
    ],
)
def test_a_listener_is_read(text: str, listener: Listener) -> None:
    assert BrokerConfig.of({"listeners": text}).listeners == (listener,)


def test_a_listener_writes_itself_as_it_is_read() -> None:
    assert str(Listener("PLAINTEXT", "::1", 1)) == "PLAINTEXT://[::1]:1"
    assert str(Listener("PLAINTEXT", "host", 1)) == "PLAINTEXT://host:1"


OIDC = {
    "authorizer.class.name": "tidelog",
    "tidelog.http.oidc.issuer": "https://login.example",
    "tidelog.http.oidc.client.id": "console",
    "tidelog.http.oidc.redirect.url": "https://kafka.example/console/login/oidc/callback",
}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"listeners": "127.0.0.1:9092"}, "write it as PLAINTEXT://host:port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "write it as PLAINTEXT://host:port"),
        ({"listeners": "PLAINTEXT://h:70000"}, "write it as PLAINTEXT://host:port"),
        ({"listeners": "SSL://h:9092"}, "listener SSL needs a certificate"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "two listeners with the same name"),
        ({"listeners": ""}, "needs an address"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to 0.0.0.0"),
        ({"tidelog.http.listen": "8090"}, "write it as host:port"),
        ({"default.replication.factor": "0"}, "at least 1"),
        ({"log.cleaner.dedupe.buffer.size": "1000"}, "at least 1048576"),
        ({"socket.send.buffer.bytes": "0"}, "-1 or at least 1"),
        ({"log.roll.ms": "0"}, "log.roll.ms cannot be 0: it must be at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "at least 0"),
        (
            {"cordoned.log.dirs": "/elsewhere"},
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /elsewhere",
        ),
        (
            {"cordoned.log.dirs": "*,data"},
            "When cordoned.log.dirs is set to *, it must not contain other values",
        ),
        ({"num.io.threads": "many"}, "Not a number of type INT"),
        ({"process.roles": "controller"}, "there are no controllers apart from brokers"),
        ({"listeners": "INSIDE://h:1"}, "listener.security.protocol.map has no INSIDE"),
        ({"listener.security.protocol.map": "A:TLS"}, "write it as NAME:PROTOCOL"),
        ({"listeners": "SASL_PLAINTEXT://h:1"}, "listener SASL_PLAINTEXT offers GSSAPI"),
        ({"listener.name.inside.ssl.client.auth": "none"}, "listeners has no INSIDE"),
        (
            {"listener.name.plaintext.ssl.client.auth": "maybe"},
            "String must be one of: required, requested, none",
        ),
        ({"listener.name.plaintext.sasl.oauthbearer.clock.skew.seconds": "x"}, "Not a number of type INT"),
        ({"listener.name.plaintext.sasl.server.max.receive.size": "x"}, "Not a number of type INT"),
        ({"listener.name.plaintext.sasl.mechanism.inter.broker.protocol": "PLAIN"}, "is of the whole broker"),
        ({"listener.name.plaintext.plain.ssl.client.auth": "none"}, "is of the whole listener"),
        ({"listener.name.plaintext.plain.connections.max.reauth.ms": "1"}, "is of the whole listener"),
        ({"listener.name.plaintext.plain.sasl.oauthbearer.sub.claim.name": "x"}, "is of the whole listener"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://login.example/keys"}, "use https:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://login.example/keys"}, "begin with https: or file:"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://me:pw@login.example/"}, "must have no user in it"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://[::1"}, "is no URL"),
        ({"tidelog.http.oidc.issuer": "https://login.example"}, "oidc.client.id is missing"),
        (OIDC | {"authorizer.class.name": ""}, "HTTP requests need no login"),
        (OIDC | {"tidelog.http.oidc.issuer": "http://login.example"}, "use https:"),
        (OIDC | {"tidelog.http.oidc.redirect.url": "https://k.example/"}, "it must end with /console/login"),
        (OIDC | {"tidelog.http.oidc.scopes": "profile"}, "lacks openid"),
        ({"tidelog.http.metrics.token.file": "tokens"}, "HTTP requests need no login"),
    ],
)
def test_an_impossible_broker_is_refused(given: dict[str, str], why: str) -> None:
    assert why in refusal(given)


def test_a_listener_has_token_settings_of_its_own() -> None:
    config = BrokerConfig.of(
        {
            "listeners": "A://h:1,B://h:2",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            "sasl.oauthbearer.jwks.endpoint.url": "https://login.example/keys",
            "sasl.oauthbearer.expected.audience": "kafka",
            "tidelog.oauthbearer.groups.claim.name": "groups",
            "listener.name.a.sasl.oauthbearer.expected.audience": "a,b",
            "listener.name.a.oauthbearer.sasl.oauthbearer.sub.claim.name": "email",
            "listener.name.http.tidelog.oauthbearer.required.scopes": "web",
            "listener.name.b.sasl.server.max.receive.size": "1000",
            "listener.name.b.sasl.oauthbearer.jwks.endpoint.url": "http://127.0.0.1:8080/keys",
        }
    )
    of_a, of_b, of_http = config.security["A"].oauth, config.security["B"].oauth, config.http_security.oauth
    assert (of_a.expected_audience, of_a.sub_claim_name) == (("a", "b"), "email")
    assert (of_b.expected_audience, of_b.sub_claim_name) == (("kafka",), "sub")
    assert of_a.keys is not None and of_a.keys == of_http.keys and of_a.keys != of_b.keys
    assert of_http.required_scopes == ("web",) and of_a.required_scopes == ()
    assert {of_a.groups_claim_name, of_b.groups_claim_name, of_http.groups_claim_name} == {"groups"}
    assert [config.security[name].sasl_message_bytes_max for name in "AB"] == [524_288, 1_000]


def test_a_dynamic_setting_of_a_listener_that_is_gone_does_not_stop_a_start() -> None:
    gone = {"listener.name.gone.ssl.keystore.location": "x", "listener.name.plaintext.max.connections": "3"}
    assert BrokerConfig.of({}, {}, gone).security["PLAINTEXT"].connections_max == 3


def test_a_password_is_not_repeated_in_the_refusal() -> None:
    assert "hunter2" not in refusal({"sasl.jaas.config": "hunter2"})
    assert "hunter2" not in refusal({"sasl.jaas.config": "module required password='hunter2"})


def test_a_listener_has_settings_of_its_own() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = BrokerConfig.of(
        {
            "listeners": "INSIDE://h:1,OUTSIDE://h:2",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
            "ssl.keystore.location": "both.pem",
            "listener.name.outside.ssl.keystore.location": "outside.pem",
            "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.outside.plain.sasl.jaas.config": f'{module} username="b" password="p\\"q" user_ann="x";',
        }
    )
    inside, outside = config.security["INSIDE"], config.security["OUTSIDE"]
    assert (inside.protocol, inside.tls.keystore_location) == ("PLAINTEXT", "both.pem")
    assert (outside.protocol, outside.tls.keystore_location) == ("SASL_SSL", "outside.pem")
    assert outside.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert outside.jaas["PLAIN"].password == 'p"q'
    assert outside.jaas["PLAIN"].listed_users == {"ann": "x"}
    assert "user_ann" not in repr(config) + repr(outside)


def test_the_http_port_is_read() -> None:
    assert BrokerConfig.of({"tidelog.http.listen": "[::1]:0"}).tidelog_http_listen == ("::1", 0)


@pytest.mark.parametrize("name", ["tidelog", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_acls_are_checked_with_an_authorizer(name: str) -> None:
    assert not BrokerConfig().authorizes
    given = {"authorizer.class.name": name, "super.users": "User:admin;User:CN=a,O=b"}
    assert BrokerConfig.of(given).authorizes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"authorizer.class.name": "com.example.Mine"}, "authorizer.class.name cannot be"),
        ({"super.users": "admin"}, "super.users has 'admin'"),
        ({"super.users": "User:a,b;root"}, "super.users has 'root'"),
        ({"delegation.token.secret.key": ""}, "delegation.token.secret.key is empty"),
        (
            {"quota.producer.default": "0"},
            "for configuration quota.producer.default: Value must be at least 1",
        ),
    ],
)
def test_access_settings_that_cannot_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        BrokerConfig.of(given)


def test_addresses_may_have_bounds_of_their_own() -> None:
    config = BrokerConfig.of(
        {"max.connections.per.ip": "5", "max.connections.per.ip.overrides": "127.0.0.1:7, ::1:9,[fe80::2]:0"}
    )
    hosts = ("127.0.0.1", "::1", "fe80::2", "10.0.0.1")
    assert [config.connections_max_of(host) for host in hosts] == [7, 9, 0, 5]
    for wrong in ("127.0.0.1", "localhost:5", "127.0.0.1:-1", "127.0.0.1:many"):
        with pytest.raises(InvalidConfig, match=r"max\.connections\.per\.ip\.overrides"):
            BrokerConfig.of({"max.connections.per.ip.overrides": wrong})


def test_bounds_of_a_listener_are_its_own() -> None:
    config = BrokerConfig.of(
        {
            "max.connections": "5",
            "listener.name.plaintext.max.connections": "3",
            "listener.name.plaintext.max.connection.creation.rate": "7",
        }
    )
    security = config.security["PLAINTEXT"]
    assert (config.max_connections, security.connections_max, security.connection_rate_max) == (5, 3, 7)
    plain = BrokerConfig.of({"max.connections": "5"}).security["PLAINTEXT"]
    assert plain.connections_max == plain.connection_rate_max == (1 << 31) - 1
