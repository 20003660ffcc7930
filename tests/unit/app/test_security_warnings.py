from __future__ import annotations

import pytest

from tidelog.access.acls import Authorizer, parse_super_users
from tidelog.app.security_warnings import open_to_everybody, powerless_broker
from tidelog.config import BrokerConfig
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType

SASL = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.jaas.config": 'any.ScramLoginModule required username="broker" password="x";',
}
TLS = {"ssl.keystore.location": "broker.pem"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"listeners": "PLAINTEXT://[::1]:9092"},
        {"listeners": "PLAINTEXT://localhost:9092"},
        {"listeners": "SASL_PLAINTEXT://0.0.0.0:9092", **SASL},
        {"listeners": "SASL_SSL://:9092", **SASL, **TLS},
        {"listeners": "SSL://:9092", **TLS, "ssl.client.auth": "required"},
        {"tidelog.http.listen": "[::1]:8090"},
        {"tidelog.http.listen": "0.0.0.0:8090", "tidelog.http.authentication": "required"},
        {"tidelog.http.listen": "0.0.0.0:8090", "authorizer.class.name": "tidelog"},
    ],
)
def test_who_has_to_log_in_or_to_be_here_is_no_stranger(settings: dict[str, str]) -> None:
    assert open_to_everybody(BrokerConfig.of(settings)) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"listeners": "PLAINTEXT://0.0.0.0:9092"},
        {"listeners": "PLAINTEXT://:9092"},
        {"listeners": "PLAINTEXT://broker.example:9092"},
        {"listeners": "SSL://10.0.0.1:9092", **TLS},
        {"listeners": "SSL://10.0.0.1:9092", **TLS, "ssl.client.auth": "requested"},
        {"tidelog.http.listen": "0.0.0.0:8090", "tidelog.http.authentication": "none"},
    ],
)
def test_a_listener_for_everybody_is_warned_of(settings: dict[str, str]) -> None:
    warning = open_to_everybody(BrokerConfig.of(settings))
    assert warning is not None and "no authentication" in warning and "--secure" in warning
    assert "delete all data" in warning
    with_acls = open_to_everybody(BrokerConfig.of({**settings, "authorizer.class.name": "tidelog"}))
    assert with_acls is not None and "ANONYMOUS" in with_acls


def authorizer(super_users: str, *bindings: AclBinding) -> Authorizer:
    return Authorizer(bindings, parse_super_users(super_users), False)


def test_brokers_of_a_cluster_need_the_right_to_act_as_brokers() -> None:
    one = BrokerConfig.of({"authorizer.class.name": "tidelog"})
    cluster = BrokerConfig.of({"tidelog.metadata": "etcd://etcd:2379"})
    secured = BrokerConfig.of(
        {"tidelog.metadata": "etcd://etcd:2379", "listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}
        | {"security.inter.broker.protocol": "SASL_PLAINTEXT", **SASL}
    )
    nobody = authorizer("")
    assert powerless_broker(one, nobody) is None, "there is no other broker"
    assert powerless_broker(cluster, None) is None, "everybody may do everything"
    for config, principal in ((cluster, "User:ANONYMOUS"), (secured, "User:broker")):
        warning = powerless_broker(config, nobody)
        assert warning is not None and principal in warning and "super.users" in warning
        assert powerless_broker(config, authorizer(principal)) is None
    right = AclBinding(
        AclResourceType.CLUSTER,
        AclPatternType.LITERAL,
        "kafka-cluster",
        "User:broker",
        "*",
        AclOperation.CLUSTER_ACTION,
        AclPermission.ALLOW,
    )
    assert powerless_broker(secured, authorizer("", right)) is None
