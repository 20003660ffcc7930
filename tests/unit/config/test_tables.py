"""The tables against what a fresh Apache Kafka 4.3.1 reported about itself, and against the parsed forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS, TOPIC_SYNONYMS, BrokerConfig, TopicConfig
from tidelog.config.listener_security import override_setting
from tidelog.config.setting import Setting, SettingKind, read_table

FACTS = [
    line.split("\t")
    for line in Path(__file__).with_name("kafka_4_3.tsv").read_text().splitlines()
    if not line.startswith("#")
]

# Where a Tidelog broker differs on purpose: a start without any setting works, and serves this machine only.
OWN_DEFAULTS = {
    "controller.listener.names": "",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dir": "data",
    "node.id": "1",
    "process.roles": "broker,controller",
}


def settings_of(resource: str) -> dict[str, Setting]:
    return TOPIC_SETTINGS if resource == "topic" else BROKER_SETTINGS


@pytest.mark.parametrize(("resource", "name", "kind", "default", "read_only"), FACTS, ids=lambda fact: fact)
def test_a_setting_has_kafkas_type_and_default(
    resource: str, name: str, kind: str, default: str, read_only: str
) -> None:
    setting = settings_of(resource)[name]
    assert setting.kind is SettingKind[kind.upper()]
    expected = {"<null>": None, '""': ""}.get(default, default)
    if resource == "broker":
        expected = OWN_DEFAULTS.get(name, expected)
        assert setting.dynamic == (read_only == "no") or name == "listeners"
    assert setting.text(setting.default) == expected
    assert setting.doc.endswith(".")


def test_kafkas_settings_and_ours_are_all_there_is() -> None:
    listed = {(resource, name) for resource, name, *_ in FACTS}
    ours = {
        setting.name
        for setting in TOPIC_SETTINGS.values()
        if ("topic", setting.name) not in listed and not setting.unlisted
    }
    assert ours == {"internal.segment.bytes"}
    unknown = [setting for setting in BROKER_SETTINGS.values() if ("broker", setting.name) not in listed]
    # A fresh Kafka does not list the throttles, which are listed once they are set.
    assert all(setting.name.startswith("tidelog.") or setting.unlisted for setting in unknown)


def test_every_default_is_an_allowed_value() -> None:
    for setting in [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]:
        if setting.default is not None and setting.name != "node.id":
            assert setting.parse(setting.text(setting.default)) == setting.default


def test_topic_config_has_an_attribute_with_the_default_of_each_topic_setting() -> None:
    config = TopicConfig()
    for setting in TOPIC_SETTINGS.values():
        if setting.internal:
            continue
        value = getattr(config, setting.attribute)
        assert value == (frozenset(setting.default) if isinstance(value, frozenset) else setting.default), (
            setting.name
        )


def test_every_built_broker_setting_can_be_read_somewhere() -> None:
    synonyms = {name for names in TOPIC_SYNONYMS.values() for name, _ in names}
    aliases = {"broker.id", "log.dir"}
    for setting in BROKER_SETTINGS.values():
        read = (
            hasattr(BrokerConfig(), setting.attribute)
            or setting.name in synonyms | aliases
            or (setting.built and override_setting(setting.name, BROKER_SETTINGS) is not None)
        )
        assert read == setting.built or (not setting.built and setting.name in synonyms), setting.name


def test_a_start_without_settings_has_the_defaults_of_the_class() -> None:
    assert BrokerConfig.of({}) == BrokerConfig()
    assert BrokerConfig.of({name: setting.text(setting.default) for name, setting in BROKER_SETTINGS.items() if
                            setting.default is not None and name != "broker.id"}) == BrokerConfig()  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7.0),
        ("0.25", 0.25),
        ("1E-4", 0.0001),
        (".5", 0.5),
    ],
)
def test_a_number_with_a_fraction_is_read(text: str, value: float) -> None:
    assert TABLE["ratio"].parse(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
    ],
)
def test_a_number_with_a_fraction_is_written_as_java_does(value: float, text: str) -> None:
    assert TABLE["ratio"].text(value) == text


TABLE = read_table("""
ratio double 0.5 built
  A ratio.
""")
