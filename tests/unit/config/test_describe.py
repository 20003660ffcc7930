from __future__ import annotations

from tidelog.config import BROKER_SETTINGS, BrokerConfig, SettingKind
from tidelog.config.describe import (
    DescribedSetting,
    SettingSource,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)


def topic_entry(name: str, overrides: dict[str, str], broker: BrokerConfig) -> DescribedSetting:
    (entry,) = describe_topic(overrides, broker, [name])
    return entry


def chain(entry: DescribedSetting) -> list[tuple[str, str | None, SettingSource]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


def test_a_topic_setting_shows_every_layer_that_has_a_value_strongest_first() -> None:
    broker = BrokerConfig.of(
        {"message.max.bytes": "4"},
        dynamic_all={"message.max.bytes": "3"},
        dynamic_here={"message.max.bytes": "2"},
    )
    entry = topic_entry("max.message.bytes", {"max.message.bytes": "1"}, broker)
    assert (entry.value, entry.source, entry.is_default, entry.kind) == (
        "1",
        SettingSource.TOPIC,
        False,
        SettingKind.INT,
    )
    assert chain(entry) == [
        ("max.message.bytes", "1", SettingSource.TOPIC),
        ("message.max.bytes", "2", SettingSource.DYNAMIC_BROKER),
        ("message.max.bytes", "3", SettingSource.DYNAMIC_DEFAULT_BROKER),
        ("message.max.bytes", "4", SettingSource.STATIC_BROKER),
        ("message.max.bytes", "1048588", SettingSource.DEFAULT),
    ]
    assert topic_entry("max.message.bytes", {}, broker).value == "2"


def test_a_coarser_unit_gives_the_value_without_being_a_synonym() -> None:
    entry = topic_entry("retention.ms", {}, BrokerConfig.of({"log.retention.hours": "1"}))
    assert (entry.value, entry.source, chain(entry)) == ("3600000", SettingSource.DEFAULT, [])


def test_a_coarser_unit_is_a_synonym_below_the_finer_one() -> None:
    entry = topic_entry("segment.ms", {}, BrokerConfig.of({"log.roll.hours": "1", "log.roll.ms": "5"}))
    assert entry.value == "5"
    assert chain(entry) == [
        ("log.roll.ms", "5", SettingSource.STATIC_BROKER),
        ("log.roll.hours", "1", SettingSource.STATIC_BROKER),
        ("log.roll.hours", "168", SettingSource.DEFAULT),
    ]


def test_values_are_written_in_one_way_however_they_were_given() -> None:
    overrides = {
        "preallocate": "TRUE",
        "cleanup.policy": "delete , compact",
        "min.cleanable.dirty.ratio": ".5",
    }
    written = {
        entry.name: entry.value for entry in describe_topic(overrides, BrokerConfig(), list(overrides))
    }
    assert written == {
        "preallocate": "true",
        "cleanup.policy": "delete,compact",
        "min.cleanable.dirty.ratio": "0.5",
    }


def test_throttles_show_only_when_set() -> None:
    name = "leader.replication.throttled.rate"
    assert name not in {entry.name for entry in describe_broker(BrokerConfig())}
    for config in (BrokerConfig.of({}, {}, {name: "1000"}), BrokerConfig.of({}, {name: "1000"})):
        assert {entry.name: entry.value for entry in describe_broker(config)}[name] == "1000"


def test_internal_settings_show_only_when_set() -> None:
    def names(overrides: dict[str, str]) -> set[str]:
        return {entry.name for entry in describe_topic(overrides, BrokerConfig())}

    assert "internal.segment.bytes" not in names({})
    assert "internal.segment.bytes" in names({"internal.segment.bytes": "100"})


def test_a_broker_shows_its_number_under_both_names() -> None:
    entries = {entry.name: entry for entry in describe_broker(BrokerConfig.of({"node.id": "7"}))}
    assert entries["broker.id"].value == entries["node.id"].value == "7"
    assert entries["broker.id"].source is SettingSource.STATIC_BROKER
    assert len(entries) == len([setting for setting in BROKER_SETTINGS.values() if not setting.unlisted])


def test_only_dynamic_settings_of_a_broker_can_be_written() -> None:
    entries = {entry.name: entry for entry in describe_broker(BrokerConfig())}
    assert not entries["message.max.bytes"].read_only
    assert entries["num.partitions"].read_only


def test_a_setting_that_is_not_applicable_shows_its_value_and_says_why() -> None:
    (entry,) = describe_broker(BrokerConfig.of({"num.io.threads": "16"}), ["num.io.threads"])
    assert (entry.value, entry.source) == ("16", SettingSource.STATIC_BROKER)
    assert "no pool of threads" in entry.documentation


def test_the_defaults_of_all_brokers_are_only_what_was_changed() -> None:
    broker = BrokerConfig.of({"max.connections": "9"}, dynamic_all={"message.max.bytes": "5"})
    (entry,) = describe_all_brokers(broker)
    assert (entry.name, entry.value, entry.source) == (
        "message.max.bytes",
        "5",
        SettingSource.DYNAMIC_DEFAULT_BROKER,
    )


def test_a_group_setting_shows_its_own_value_before_the_brokers() -> None:
    broker = BrokerConfig.of({"group.consumer.session.timeout.ms": "46000"})
    (entry,) = describe_group(
        {"consumer.session.timeout.ms": "47000"}, broker, ["consumer.session.timeout.ms"]
    )
    assert (entry.value, entry.source) == ("47000", SettingSource.GROUP)
    assert chain(entry) == [
        ("consumer.session.timeout.ms", "47000", SettingSource.GROUP),
        ("group.consumer.session.timeout.ms", "46000", SettingSource.STATIC_BROKER),
        ("group.consumer.session.timeout.ms", "45000", SettingSource.DEFAULT),
    ]


def test_groups_and_client_metrics_show_kafkas_defaults() -> None:
    group = {entry.name: entry for entry in describe_group({}, BrokerConfig())}
    assert chain(group["consumer.session.timeout.ms"]) == [
        ("group.consumer.session.timeout.ms", "45000", SettingSource.DEFAULT)
    ]
    assert chain(group["share.auto.offset.reset"]) == [
        ("share.auto.offset.reset", "latest", SettingSource.DEFAULT)
    ]
    assert {entry.name: entry.value for entry in describe_client_metrics({})} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }


def test_settings_of_one_listener_are_described_with_their_layers() -> None:
    own, password = (
        "listener.name.plaintext.ssl.keystore.location",
        "listener.name.plaintext.ssl.key.password",
    )
    config = BrokerConfig.of(
        {"ssl.keystore.location": "all.pem", own: "start.pem", password: "secret"}, {}, {own: "now.pem"}
    )
    entries = {entry.name: entry for entry in describe_broker(config)}
    assert (entries[own].value, entries[own].source) == ("now.pem", SettingSource.DYNAMIC_BROKER)
    assert chain(entries[own]) == [
        (own, "now.pem", SettingSource.DYNAMIC_BROKER),
        (own, "start.pem", SettingSource.STATIC_BROKER),
        ("ssl.keystore.location", "all.pem", SettingSource.STATIC_BROKER),
    ]
    assert not entries[own].read_only and entries[password].sensitive
    assert entries[password].value is None and chain(entries[password])[0][1] is None
    assert [entry.name for entry in describe_broker(config, [own])] == [own]
    assert [entry.name for entry in describe_broker(config, ["ssl.keystore.location"])] == [
        "ssl.keystore.location"
    ]
