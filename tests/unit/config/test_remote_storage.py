"""Settings of remote storage: which go together, in Apache Kafka's words."""

from __future__ import annotations

import pytest

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.errors import InvalidConfig
from tidelog.storage.tiers.object_store import check_url, open_object_store

ENABLED = {"remote.storage.enable": "true"}


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(InvalidConfig) as refused:
        TopicConfig.of({**ENABLED, **settings}).check()
    return str(refused.value)


def test_a_topic_with_remote_storage_is_plain_and_keeps_no_more_locally_than_in_all() -> None:
    TopicConfig.of({**ENABLED, "local.retention.ms": "1000", "local.retention.bytes": "-2"}).check()
    assert (
        refusal({"cleanup.policy": "compact"}) == "Remote log storage is unsupported for the compacted topics"
    )
    assert "Value must not be more than property: retention.ms value: 1000" in refusal(
        {"retention.ms": "1000", "local.retention.ms": "1001"}
    )
    assert "Value must not be -1 as retention.bytes value is set as 5." in refusal(
        {"retention.bytes": "5", "local.retention.bytes": "-1"}
    )
    assert "encryption.key" in refusal({"encryption.key": "file:main"})


def test_without_remote_storage_the_same_values_are_taken() -> None:
    TopicConfig.of(
        {"retention.ms": "1000", "local.retention.ms": "1001", "cleanup.policy": "compact"}
    ).check()


def test_remote_storage_needs_brokers_that_have_it() -> None:
    after = TopicConfig.of(ENABLED)
    with pytest.raises(InvalidConfig, match="Tiered Storage functionality is disabled in the broker"):
        after.check_remote_change(None, system_enabled=False)
    after.check_remote_change(None, system_enabled=True)


def test_remote_storage_is_switched_off_with_its_data() -> None:
    before = TopicConfig.of(ENABLED)
    with pytest.raises(InvalidConfig, match="It is invalid to disable remote storage without deleting"):
        TopicConfig().check_remote_change(before, system_enabled=True)
    TopicConfig.of({"remote.log.delete.on.disable": "true"}).check_remote_change(before, system_enabled=True)


def test_a_broker_with_remote_storage_knows_where() -> None:
    with pytest.raises(InvalidConfig, match=r"tidelog\.remote\.storage\.url"):
        BrokerConfig.of({"remote.log.storage.system.enable": "true"})
    config = BrokerConfig.of(
        {"remote.log.storage.system.enable": "true", "tidelog.remote.storage.url": "file:///archive"}
    )
    assert config.tidelog_remote_storage_url == "file:///archive"


@pytest.mark.parametrize(
    "url",
    [
        "archive",
        "ftp://host/archive",
        "file://archive",
        "s3:///archive",
        "s3://bucket/p?aws_secret_access_key=abc",
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"tidelog\.remote\.storage\.url"):
        check_url(url, "tidelog.remote.storage.url")


def test_an_option_that_the_store_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="colour"):
        open_object_store("s3://bucket/archive?colour=blue", "tidelog.remote.storage.url")
