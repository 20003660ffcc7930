from __future__ import annotations

import pytest

from tidelog.config import TOPIC_SETTINGS, BrokerConfig, TopicConfig
from tidelog.errors import InvalidConfig


def refusal(overrides: dict[str, str | None]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        TopicConfig.of(overrides)
    return str(caught.value)


def test_a_topics_own_settings_win_over_the_brokers() -> None:
    broker = BrokerConfig.of({"log.segment.bytes": "2097152", "log.retention.hours": "2"})
    config = TopicConfig.of({"segment.bytes": "3145728", "preallocate": "TRUE"}, broker.topic_defaults)
    assert config.segment_bytes == 3145728
    assert config.retention_ms == 7_200_000
    assert config.preallocate is True


def test_values_are_parsed_to_their_types() -> None:
    config = TopicConfig.of(
        {
            "cleanup.policy": " compact , delete ",
            "min.cleanable.dirty.ratio": "0.1",
            "compression.type": "zstd",
            "retention.ms": "-1",
        }
    )
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.min_cleanable_dirty_ratio == 0.1
    assert config.compression_type == "zstd"
    assert config.retention_ms == -1


def test_an_entry_that_stands_in_a_list_twice_counts_once() -> None:
    assert TOPIC_SETTINGS["cleanup.policy"].parse("delete, compact ,delete") == ("delete", "compact")


def test_a_topic_without_settings_of_its_own_shares_the_brokers_defaults() -> None:
    defaults = BrokerConfig().topic_defaults
    assert TopicConfig.of({}, defaults) is defaults


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    assert (
        refusal({"retention.msec": "1"})
        == "Unknown topic config name: retention.msec: did you mean 'retention.ms'?"
    )
    assert refusal({"xyzzy": "1"}) == "Unknown topic config name: xyzzy"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("segment.bytes", "1e7", "Not a number of type INT"),
        ("segment.bytes", "", "Not a number of type INT"),
        ("flush.messages", "9" * 1000, "Not a number of type LONG"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("cleanup.policy", "compact,drop", "String must be one of: compact, delete"),
        ("cleanup.policy", "delete,", "an entry is empty"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        (
            "compression.type",
            "brotli",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "NaN", "Not a number of type DOUBLE"),
    ],
)
def test_an_impossible_value_is_refused_with_what_is_possible(name: str, value: str, why: str) -> None:
    shown = "drop" if "drop" in value else value
    assert refusal({name: value}) == f"Invalid value {shown} for configuration {name}: {why}"


@pytest.mark.parametrize("name", ["leader", "follower"])
def test_throttled_replicas_are_a_list_or_all(name: str) -> None:
    setting = f"{name}.replication.throttled.replicas"
    held = getattr(TopicConfig.of({setting: "0:1, 12:3"}), f"{name}_replication_throttled_replicas")
    assert held == ("0:1", "12:3")
    assert TopicConfig.of({setting: "*"}) != TopicConfig() == TopicConfig.of({setting: ""})
    for wrong in ("1", "a:1", "*,0:1", "0:1:2"):
        assert refusal({setting: wrong}) == (
            f"{setting} cannot be {wrong!r}: it must be * or a list of PARTITION:BROKER"
        )


def test_a_setting_that_needs_a_value_cannot_be_null() -> None:
    assert refusal({"retention.ms": None}) == "Null value not supported for retention.ms"


def test_compaction_lags_must_not_contradict_each_other() -> None:
    TopicConfig.of({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"}).check()
    with pytest.raises(InvalidConfig, match="must not be larger than"):
        TopicConfig.of({"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"}).check()


def test_small_segments_can_be_had_through_kafkas_internal_setting() -> None:
    assert (
        TopicConfig.of({"internal.segment.bytes": "1000", "segment.bytes": "2097152"}).segment_bytes == 1000
    )
