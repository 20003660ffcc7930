"""Files of settings that were made for Apache Kafka: what has no effect here is named, and nothing of it stops a start."""

from __future__ import annotations

import pytest

from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig
from tidelog.config.group import GROUP_SETTINGS
from tidelog.config.properties import parse_properties
from tidelog.config.tables.inapplicable import NOT_APPLICABLE
from tidelog.errors import InvalidConfig

# The lines of config/server.properties of Apache Kafka 4.3 that are not comments.
STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def lines(config: BrokerConfig, warnings: bool) -> str:
    return "\n".join(line for is_warning, line in config.without_effect if is_warning == warnings)


def test_the_settings_of_a_stock_distribution_make_a_broker() -> None:
    config = BrokerConfig.of(parse_properties(STOCK))
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.num_partitions == 1 and lines(config, warnings=True) == ""
    told = lines(config, warnings=False)
    assert "controller.listener.names: CONTROLLER is not opened" in told
    assert (
        "controller.quorum.bootstrap.servers=localhost:9093 has no effect. Metadata are in SQLite or etcd"
        in told
    )
    assert "num.partitions" not in told


def test_unknown_settings_are_named_with_the_nearest_name() -> None:
    given = {
        "log.segmant.bytes": "1",
        "listener.name.plaintext.log.dirs": "x",
        "file.delete.delay.ms": "60000",
    }
    config = BrokerConfig.of(given)
    assert config == BrokerConfig() and config.given == {}
    told = lines(config, warnings=True)
    assert "unknown setting 'log.segmant.bytes': did you mean 'log.segment.bytes'? It has no effect." in told
    assert "'listener.name.plaintext.log.dirs'" in told and "unknown setting 'file.delete.delay.ms'" in told


def test_settings_of_a_controllers_listener_are_passed_over() -> None:
    config = BrokerConfig.of(
        {
            "listeners": "PLAINTEXT://h:1,INSIDE://h:2",
            "advertised.listeners": "INSIDE://h:2",
            "controller.listener.names": "INSIDE",
            "listener.name.inside.ssl.client.auth": "required",
        }
    )
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT"]
    assert config.advertised_listeners == ()


@pytest.mark.parametrize(
    "name", [name for name, setting in BROKER_SETTINGS.items() if setting.why_not], ids=str
)
def test_a_setting_that_is_not_applicable_is_accepted_and_named(name: str) -> None:
    setting = BROKER_SETTINGS[name]
    texts = ["true", "false", "7", "77777777", "0.7", "broker.example.Thing"]
    text = next(text for text in texts if _parses(name, text))
    config = BrokerConfig.of({name: text})
    assert config == BrokerConfig()
    assert (False, f"{name}={text} has no effect. {setting.why_not}") in config.without_effect


def _parses(name: str, text: str) -> bool:
    try:
        value = BROKER_SETTINGS[name].parse(text)
    except InvalidConfig:
        return False
    return value != BROKER_SETTINGS[name].default


def test_every_setting_acts_or_says_why_not() -> None:
    for setting in (*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values(), *GROUP_SETTINGS.values()):
        assert setting.built != bool(setting.why_not), setting.name


def test_no_reason_is_left_over() -> None:
    settings = BROKER_SETTINGS.values()
    assert set(NOT_APPLICABLE.values()) == {setting.why_not for setting in settings if setting.why_not}
